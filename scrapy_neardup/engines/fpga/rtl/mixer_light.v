// The light mixer: two layers of exclusive-or around half an adder; a bijection of 64 bits.
//
// One word a cycle, STAGES = 3 registers. 190 LUTs do what fmix64 does with two multipliers.

`default_nettype none

module mixer_light (
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
    reg [2:0]  valid, last;
    reg [63:0] keyed, summed, mixed;

    wire [63:0] spread = keyed ^ {keyed[46:0], keyed[63:47]} ^ {keyed[22:0], keyed[63:23]};

    always @(posedge clk) begin
        valid <= {valid[1:0], word_valid};
        last  <= {last[1:0], word_last};
        // Whether valid or not: a simulator then has nothing to branch on.
        keyed  <= word_hash ^ key;
        summed <= {spread[63:32] + spread[31:0], spread[31:0]};
        mixed  <= summed ^ {summed[36:0], summed[63:37]} ^ {summed[48:0], summed[63:49]};
        if (rst) {valid, last} <= 0;
    end

    assign feature_valid = valid[2];
    assign feature_last  = last[2];
    assign feature       = mixed;
endmodule

`default_nettype wire
