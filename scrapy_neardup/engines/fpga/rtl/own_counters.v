// Votes to a fingerprint, with an adder for each of 64 counters: the paper's Figure 7.
//
// Zeros count up, ones down, so that V > 0 is the sign bit (Figure 8). Registers: counters | sign
// with one character a cycle, both at once with two.

`default_nettype none

module own_counters #(
    parameter CW = 24,      // as in simhash_core.v
    parameter BYTES = 1,
    parameter TIE_GE = 0
) (
    input  wire        clk,
    input  wire        rst,
    input  wire        feature_valid,
    input  wire        feature_last,
    input  wire [63:0] feature,
    output wire        closing,
    output reg  [63:0] fingerprint
);
    // A one-byte core samples the counters a cycle after the last vote, and no vote can come in
    // that cycle: after a NUL a word needs two. A two-byte core may be voting for the next
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
