// SimHash Core (SHC): the paper's Figures 7 and 8, one or two characters a cycle.
//
// chars in -> word_* out ... feature_* in -> fingerprint out. Between word_hash and feature
// the fingerprint engine may put a mixer; without one it wires word_* to feature_*.
//
// Registers on the way: word hash with one character a cycle, characters | word hash with two; then
// those of own_counters.v or shared_counters.v.

`default_nettype none

module simhash_core #(
    parameter CW = 24,      // counter bits: exact below 2**(CW-1) words a document
    parameter BYTES = 1,    // characters a cycle, 1 or 2
    parameter TIE_GE = 0,   // 1: a tie gives a one (Figure 3), 0: a zero (the text, Figure 8)
    parameter SHARED = 0    // 1: eight adders for the 64 counters, with one character a cycle
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
    input  wire               frame,          // with SHARED: a word's first vote can come in this cycle
    output wire               closing,        // fingerprint takes a new value with this cycle
    output wire [63:0]        fingerprint
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

    generate
        if (SHARED != 0) begin : shared
            shared_counters #(.CW(CW), .TIE_GE(TIE_GE)) counters (
                .clk(clk), .rst(rst), .frame(frame), .feature_valid(feature_valid),
                .feature_last(feature_last), .feature(feature),
                .closing(closing), .fingerprint(fingerprint)
            );
        end else begin : own
            own_counters #(.CW(CW), .BYTES(BYTES), .TIE_GE(TIE_GE)) counters (
                .clk(clk), .rst(rst), .feature_valid(feature_valid),
                .feature_last(feature_last), .feature(feature),
                .closing(closing), .fingerprint(fingerprint)
            );
            wire unused = &{1'b0, frame};
        end
    endgenerate
endmodule

`default_nettype wire
