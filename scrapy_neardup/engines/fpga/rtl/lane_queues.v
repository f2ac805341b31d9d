// The words that wait for their lanes: a FIFO a lane, all in one memory.
//
// One word comes a cycle and one leaves, to the lane whose turn is next. It leaves only while a
// place is free for the fingerprint that it may lead to.

`default_nettype none

module lane_queues #(
    parameter N = 8,        // lanes
    parameter LOG = 4       // log2 of the words in a lane's queue
) (
    input  wire         clk,
    input  wire         rst,
    input  wire         in_valid,
    input  wire [2:0]   in_lane,
    input  wire         in_last,
    input  wire [63:0]  in_word,
    output wire [N-1:0] full,
    output wire [N-1:0] empty,
    input  wire [2:0]   next,           // the lane whose turn is in the next cycle
    input  wire         may_leave,
    output wire         stalled,        // a word could leave and may not
    output reg          out_valid,      // for the lane whose turn it is
    output reg          out_last,
    output wire [63:0]  out_word
);
    localparam WORDS = 1 << LOG;

    reg  [64:0]      memory [0:8*WORDS-1];
    reg  [64:0]      read;
    reg  [LOG*N-1:0] written, taken;    // the next place of each lane
    reg  [(LOG+1)*N-1:0] count;

    integer j;
    reg           waits;
    reg [LOG-1:0] to, from;
    always @* begin
        waits = 1'b0;
        to    = {LOG{1'b0}};
        from  = {LOG{1'b0}};
        for (j = 0; j < N; j = j + 1) begin
            if (in_lane == j[2:0]) to = written[LOG*j+:LOG];
            if (next == j[2:0]) begin
                from  = taken[LOG*j+:LOG];
                waits = ~empty[j];
            end
        end
    end
    wire leaves = waits & may_leave;
    assign stalled = waits & ~may_leave;

    always @(posedge clk) begin
        if (in_valid) memory[{in_lane, to}] <= {in_last, in_word};
        read <= memory[{next, from}];
        out_valid <= leaves & ~rst;
    end
    assign out_word = read[63:0];
    always @* out_last = out_valid & read[64];

    genvar i;
    generate
        for (i = 0; i < N; i = i + 1) begin : lanes
            localparam [2:0] LANE = i;
            wire comes = in_valid & in_lane == LANE, goes = leaves & next == LANE;
            assign empty[i] = count[(LOG+1)*i+:LOG+1] == 0;
            assign full[i]  = count[(LOG+1)*i+LOG];

            always @(posedge clk) begin
                if (comes) written[LOG*i+:LOG] <= written[LOG*i+:LOG] + 1'b1;
                if (goes) taken[LOG*i+:LOG] <= taken[LOG*i+:LOG] + 1'b1;
                count[(LOG+1)*i+:LOG+1] <= count[(LOG+1)*i+:LOG+1]
                    + {{LOG{1'b0}}, comes} - {{LOG{1'b0}}, goes};
                if (rst) begin
                    written[LOG*i+:LOG]     <= 0;
                    taken[LOG*i+:LOG]       <= 0;
                    count[(LOG+1)*i+:LOG+1] <= 0;
                end
            end
        end
    endgenerate
endmodule

`default_nettype wire
