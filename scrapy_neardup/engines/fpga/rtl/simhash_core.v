// SimHash Core (SHC): the paper's Figures 7 and 8, one or two characters a cycle.
//
// chars in -> word_* out ... feature_* in -> fingerprint out. Between word_hash and feature
// the fingerprint engine may put a mixer; without one it wires word_* to feature_*.
//
// Registers on the way: word hash | counters | sign with one character a cycle,
// characters | word hash | counters and sign with two.

`default_nettype none

module simhash_core #(
    parameter CW = 24,      // counter bits: exact below 2**(CW-1) words a document
    parameter BYTES = 1,    // characters a cycle, 1 or 2
    parameter TIE_GE = 0    // 1: a tie gives a one (Figure 3), 0: a zero (the text, Figure 8)
) (
    input  wire               clk,
    input  wire               rst,
    input  wire               chars_valid,
    input  wire [8*BYTES-1:0] chars,          // the first one lowest; nothing after a NUL counts
    output reg                word_valid,     // word_hash is a word's; it stays for a cycle more
    output reg                word_last,      // the document ends
    output reg  [63:0]    word_hash,
    input  wire               feature_valid,
    input  wire               feature_last,
    input  wire [63:0]    feature,
    output wire               closing,        // fingerprint takes a new value with this cycle
    output reg  [63:0]    fingerprint
);
    /* verilator no_inline_module */  // one copy of the code for all cores: it fits the cache

    localparam [7:0] SPACE = 8'd32, NUL = 8'd0;

    // ---- The word's hash: h * 65599 + c for each character, modulo 2**64.
    reg [63:0] hash;
    reg            in_word;

    generate
        if (BYTES == 1) begin : one
            wire [63:0] char = {56'd0, chars};
            wire            nul = chars == NUL;
            wire            ends = nul | chars == SPACE;

            always @(posedge clk) begin
                word_valid <= chars_valid & ends & in_word;
                word_last  <= chars_valid & nul;
                if (ends & in_word) word_hash <= hash;
                if (chars_valid) begin
                    in_word <= ~ends;
                    hash    <= ends ? 64'd0 : ((hash << 16) | char) + (hash << 6) - hash;
                end
                if (rst) {in_word, word_valid, word_last, hash} <= 0;
            end
        end else begin : two
            // Two characters end at most one word that is not empty: one vote a cycle is enough.
            // 65599**2 = 2**32 + 2**23 - 2**17 + 2**12 - 2**7 + 1.
            wire [7:0]      c0 = chars[7:0], c1 = chars[15:8];
            wire            nul0 = c0 == NUL, ends0 = nul0 | c0 == SPACE;
            wire            nul1 = c1 == NUL, ends1 = nul1 | c1 == SPACE;
            reg             valid, last, letter0, letter1;
            reg  [7:0]      first, second;
            reg  [63:0] both;   // what the two characters add to the hash
            wire            opened = in_word | letter0;

            always @(posedge clk) begin
                valid   <= chars_valid;
                last    <= chars_valid & (nul0 | nul1);
                letter0 <= ~ends0;
                letter1 <= ~ends1 & ~nul0;
                first   <= c0;
                second  <= c1;
                both    <= ({56'd0, c0} << 16) + ({56'd0, c0} << 6)
                         - {56'd0, c0} + {56'd0, c1};

                word_valid <= valid & opened & ~(letter0 & letter1);
                word_last  <= last;
                if (opened & ~(letter0 & letter1))
                    word_hash <= letter0
                        ? ((hash << 16) | {56'd0, first}) + (hash << 6) - hash
                        : hash;
                if (valid) begin
                    in_word <= letter1;
                    if (!letter1) hash <= 64'd0;
                    else if (!letter0) hash <= {56'd0, second};
                    else hash <= ((hash << 32) | both) + (hash << 23) - (hash << 17)
                               + (hash << 12) - (hash << 7) + hash;
                end
                if (rst) {in_word, valid, last, word_valid, word_last, hash} <= 0;
            end
        end
    endgenerate

    // ---- The counters: zeros up, ones down, so that V > 0 is the sign bit (Figure 8).
    // A one-byte core samples them a cycle after the last vote, and no vote can come in that
    // cycle: after a NUL a word needs two. A two-byte core may be voting for the next
    // document by then, so it samples the sum that the last vote makes.
    reg any_word;       // before this cycle; a first vote of this cycle makes no tie

    always @(posedge clk) begin
        if (closing | rst) any_word <= 1'b0;
        else if (feature_valid) any_word <= 1'b1;
    end

    genvar i;
    generate
        if (BYTES == 1) begin : later
            reg closing_q;
            always @(posedge clk) closing_q <= feature_last & ~rst;
            assign closing = closing_q;
        end else begin : at_once
            assign closing = feature_last;
        end

        for (i = 0; i < 64; i = i + 1) begin : bits
            reg  [CW-1:0] zeros;
            wire [CW-1:0] total;

            // The sum stands inside its condition: a simulator then skips idle counters.
            always @(posedge clk) begin
                if (closing) begin
                    zeros <= {CW{1'b0}};
                    fingerprint[i] <=
                        total[CW-1] | (TIE_GE != 0 & any_word & total == {CW{1'b0}});
                end else if (feature_valid) zeros <= zeros + {{(CW - 1) {feature[i]}}, 1'b1};
                if (rst) zeros <= {CW{1'b0}};
            end

            if (BYTES == 1) begin : sampled
                assign total = zeros;
            end else begin : summed
                assign total = feature_valid ? zeros + {{(CW - 1) {feature[i]}}, 1'b1} : zeros;
            end
        end
    endgenerate
endmodule

`default_nettype wire
