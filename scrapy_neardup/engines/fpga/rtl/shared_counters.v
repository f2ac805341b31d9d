// Votes to a fingerprint, with eight adders for 64 counters: for cores of one character a cycle.
//
// A lane is given a word of eight characters every eight cycles. Its votes, four at most, come in a
// frame of eight cycles, and a document ends with a frame. Small counters count the ones of a
// frame. In the eight cycles after it, eight adders add what it brought, votes less twice the ones,
// to 64 sums in a memory, eight in a cycle: of the zeros less the ones, as a counter each would
// have them, modulo 2**CW. Nothing waits: the next frame is counted meanwhile.

`default_nettype none

module shared_counters #(
    parameter CW = 24,      // bits of a sum
    parameter TIE_GE = 0
) (
    input  wire        clk,
    input  wire        rst,
    input  wire        frame,           // the first cycle of a frame
    input  wire        feature_valid,
    input  wire        feature_last,
    input  wire [63:0] feature,
    output reg         closing,
    output reg  [63:0] fingerprint
);
    // n + more, for n up to three; Yosys would build a carry chain for each.
    function [2:0] counted_on(input [2:0] n, input more);
        counted_on = {n[2] | (n[1] & n[0] & more), n[1] ^ (n[0] & more), n[0] ^ more};
    endfunction

    // ---- The frame that is being counted, and the one before.
    reg [2:0] votes, counted;
    reg       last, ended;      // a document ends with it
    reg       empty, fresh;     // the sums hold nothing: after a reset; of the frame's document
    reg       any_word, any_added;  // the document has a word; the same, a cycle later

    always @(posedge clk) begin
        votes   <= counted_on(frame ? 3'd0 : votes, feature_valid);
        last    <= feature_last | (last & ~frame);
        closing <= frame & ended;
        any_added <= any_word;
        if (frame) begin
            counted  <= votes;
            ended    <= last;
            fresh    <= ended | empty;
            empty    <= 1'b0;
            any_word <= votes != 3'd0 | (any_word & ~ended);
        end
        if (rst) {votes, last, closing, counted, ended, any_word} <= 0;
        if (rst) {empty, fresh} <= 2'b11;
    end

    // ---- Sums, of one bit of each byte in a cycle.
    reg  [2:0]      bit_read, bit_added;
    reg  [8*CW-1:0] sums [0:7];
    reg  [8*CW-1:0] sum;
    wire [8*CW-1:0] total;

    always @(posedge clk) begin
        bit_read  <= frame ? 3'd0 : bit_read + 3'd1;
        bit_added <= bit_read;
        sum       <= sums[bit_read];
        if (fresh) sum <= {8 * CW{1'b0}};
        sums[bit_added] <= total;
    end

    genvar i, j;
    generate
        for (i = 0; i < 8; i = i + 1) begin : bytes
            reg [23:0] ones, held;      // of each bit: in this frame, in the one before
            for (j = 0; j < 8; j = j + 1) begin : bits
                wire one = feature[8*i+j];
                always @(posedge clk) begin
                    if (feature_valid)
                        ones[3*j+:3] <= counted_on(frame ? 3'd0 : ones[3*j+:3], one);
                    else if (frame) ones[3*j+:3] <= 3'd0;
                    if (frame) held[3*j+:3] <= ones[3*j+:3];
                    if (rst) {ones[3*j+:3], held[3*j+:3]} <= 0;
                end
            end

            reg  [3:0] more;        // -4 to 4
            reg  [6:0] signs;       // of the bits before
            wire       sign = total[CW*i+CW-1] | (TIE_GE != 0 & any_added & total[CW*i+:CW] == 0);
            assign     total[CW*i+:CW] = sum[CW*i+:CW] + {{(CW - 4) {more[3]}}, more};

            always @(posedge clk) begin
                more  <= {1'b0, counted} - {held[3*bit_read+:3], 1'b0};
                signs <= {sign, signs[6:1]};
                if (closing) fingerprint[8*i+:8] <= {sign, signs};
            end
        end
    endgenerate
endmodule

`default_nettype wire
