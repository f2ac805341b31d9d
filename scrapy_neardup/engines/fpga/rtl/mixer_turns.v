// Two one-byte cores take turns at one mixer: a word and its space take them two cycles.
//
// A word that comes in the other lane's cycle waits for one cycle in its core's word_hash,
// and the end of its document may join it there.

`default_nettype none

module mixer_turns #(
    parameter MIXER = 1,
    parameter STAGES = 3        // of the mixer
) (
    input  wire         clk,
    input  wire         rst,
    input  wire [63:0]  key,
    input  wire [1:0]   select,
    input  wire         turn,   // the lane that goes in in this cycle
    input  wire [1:0]   word_valid,
    input  wire [1:0]   word_last,
    input  wire [127:0] word_hash,
    output wire [1:0]   feature_valid,
    output wire [1:0]   feature_last,
    output wire [127:0] feature
);
    localparam [31:0] DELAY = STAGES;

    reg  [1:0]  held_valid, held_last;
    wire [1:0]  valid = word_valid | held_valid, last = word_last | held_last;
    wire [1:0]  goes_in = turn ? 2'b10 : 2'b01;
    wire [1:0]  comes_out = turn ^ DELAY[0] ? 2'b10 : 2'b01;
    wire        mixed_valid, mixed_last;
    wire [63:0] mixed;

    always @(posedge clk) begin
        held_valid <= valid & ~goes_in;
        held_last  <= last & ~goes_in;
        if (rst) {held_valid, held_last} <= 0;
    end

    mixer #(MIXER) mix (
        clk, rst, key, select, |(valid & goes_in), |(last & goes_in),
        turn ? word_hash[127:64] : word_hash[63:0],
        mixed_valid, mixed_last, mixed
    );

    assign feature_valid = {2{mixed_valid}} & comes_out;
    assign feature_last  = {2{mixed_last}} & comes_out;
    assign feature       = {2{mixed}};
endmodule

`default_nettype wire
