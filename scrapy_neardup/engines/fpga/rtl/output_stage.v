// Output stage: one fingerprint leaves a cycle; those that must wait do so in their cores.
//
// A lane that closes in one cycle is first driven in the next. Which lane that is was decided a
// cycle before, so that the choice and the multiplexer are not one after the other.

`default_nettype none

module output_stage #(
    parameter N = 8,
    parameter SLOTS = 0     // 0 the lowest lane goes first (Figure 6), 1 each lane in its slot
) (
    input  wire            clk,
    input  wire            rst,
    input  wire [2:0]      slot,            // the lane that may be driven next, for SLOTS
    input  wire [N-1:0]    closing,         // the lane's fingerprint takes a new value
    input  wire [64*N-1:0] fingerprint,     // of each lane; it stays until the next one
    output reg             out_valid,
    output reg  [2:0]      out_lane,
    output reg  [63:0]     out_fingerprint,
    output reg             overflow         // sticky: a fingerprint was overwritten in waiting
);
    reg  [N-1:0] waiting, driven;
    wire [N-1:0] left = waiting & ~driven, ready = closing | left;
    wire [N-1:0] chosen;

    genvar i;
    generate
        if (SLOTS != 0) begin : slots
            for (i = 0; i < N; i = i + 1) begin : own
                localparam [2:0] LANE = i;
                assign chosen[i] = ready[i] & slot == LANE;
            end
        end else begin : priority_multiplexer
            assign chosen = ready & (~ready + 1'b1);
            wire unused = &{1'b0, slot};
        end
    endgenerate

    integer j;
    reg [2:0]  lane;
    reg [63:0] value;
    always @* begin
        lane  = 3'd0;
        value = 64'd0;
        for (j = 0; j < N; j = j + 1) begin
            lane  = lane | (driven[j] ? j[2:0] : 3'd0);
            value = value | (fingerprint[64*j+:64] & {64{driven[j]}});
        end
    end

    always @(posedge clk) begin
        waiting   <= ready;
        driven    <= chosen;
        out_valid <= |driven;
        overflow  <= overflow | (|(closing & left));
        if (|driven) begin
            out_lane        <= lane;
            out_fingerprint <= value;
        end
        if (rst) {waiting, driven, out_valid, overflow} <= 0;
    end
endmodule

`default_nettype wire
