// MurmurHash3's 64-bit finaliser, as every engine of the package computes it.
//
// One word a cycle, STAGES = 10 registers. Two multipliers of ten 16 x 16 products each:
// 20 DSP blocks, which two cores share because a word takes a core two cycles at least.

`default_nettype none

module mixer_fmix64 (
    input  wire        clk,
    input  wire        rst,
    input  wire [63:0] key,
    input  wire        word_valid,
    input  wire        word_last,
    input  wire [63:0] word_hash,
    output wire        feature_valid,
    output wire        feature_last,
    output wire [63:0] feature
);
    reg  [9:0]  valid, last;
    reg  [63:0] keyed, first, second, mixed;
    wire [63:0] product1, product2;

    constant_multiplier #(64'hFF51AFD7ED558CCD) multiply1 (clk, first, product1);
    constant_multiplier #(64'hC4CEB9FE1A85EC53) multiply2 (clk, second, product2);

    always @(posedge clk) begin
        valid <= {valid[8:0], word_valid};
        last  <= {last[8:0], word_last};
        // Whether valid or not: a simulator then has nothing to branch on.
        keyed  <= word_hash ^ key;
        first  <= keyed ^ (keyed >> 33);
        second <= product1 ^ (product1 >> 33);
        mixed  <= product2 ^ (product2 >> 33);
        if (rst) {valid, last} <= 0;
    end

    assign feature_valid = valid[9];
    assign feature_last  = last[9];
    assign feature       = mixed;
endmodule

`default_nettype wire
