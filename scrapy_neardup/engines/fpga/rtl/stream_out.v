// Fingerprints onto an AXI4-Stream, each with the id and the flags of its document.
//
// A document takes a place in the FIFO before its last word goes to a core, so that the engine,
// which cannot wait, always finds one. Results of a lane come in the order of its documents.

`default_nettype none

module stream_out #(
    parameter N = 8,        // lanes
    parameter ID = 8,       // bits of tid
    parameter LOG = 5       // log2 of the results that may be in the engine or wait here
) (
    input  wire            clk,
    input  wire            rst,
    input  wire            last_goes,       // the last word of a document goes to its lane ...
    input  wire [2:0]      lane,            // ... this one
    input  wire [ID*N-1:0] id,              // of each lane's document
    input  wire [3*N-1:0]  flags,
    output wire            place,           // one is free after this cycle
    input  wire            in_valid,        // from the engine
    input  wire [2:0]      in_lane,
    input  wire [63:0]     in_fingerprint,
    output wire            m_tvalid,
    input  wire            m_tready,
    output wire [63:0]     m_tdata,
    output wire [ID-1:0]   m_tid,
    output wire [2:0]      m_tuser,
    output wire            busy
);
    localparam RESULTS = 1 << LOG;
    localparam [LOG:0] ALL = RESULTS;

    // ---- Places.
    reg  [LOG:0] places;
    wire         leaves = m_tvalid & m_tready;
    wire [LOG:0] left = places - {{LOG{1'b0}}, last_goes};
    assign       place = left != 0;
    assign       busy  = places != ALL;

    always @(posedge clk) places <= rst ? ALL : left + {{LOG{1'b0}}, leaves};

    // ---- Documents in the engine, in order for each lane; at most eight of a lane are.
    reg  [ID+2:0]  documents [0:63];
    reg  [3*N-1:0] asked, answered;
    reg  [ID+2:0]  document;
    reg  [2:0]     to, from;
    integer j;
    always @* begin
        document = {(ID + 3) {1'b0}};
        to   = 3'd0;
        from = 3'd0;
        for (j = 0; j < N; j = j + 1) begin
            if (lane == j[2:0]) begin
                document = {flags[3*j+:3], id[ID*j+:ID]};
                to = asked[3*j+:3];
            end
            if (in_lane == j[2:0]) from = answered[3*j+:3];
        end
    end

    genvar i;
    generate
        for (i = 0; i < N; i = i + 1) begin : lanes
            localparam [2:0] LANE = i;
            always @(posedge clk) begin
                if (last_goes & lane == LANE) asked[3*i+:3] <= asked[3*i+:3] + 3'd1;
                if (in_valid & in_lane == LANE) answered[3*i+:3] <= answered[3*i+:3] + 3'd1;
                if (rst) {asked[3*i+:3], answered[3*i+:3]} <= 0;
            end
        end
    endgenerate

    // ---- Results.
    reg [ID+66:0] results [0:RESULTS-1];
    reg [LOG:0]   came, went;

    always @(posedge clk) begin
        if (last_goes) documents[{lane, to}] <= document;
        if (in_valid) results[came[LOG-1:0]] <= {documents[{in_lane, from}], in_fingerprint};
        came <= rst ? 0 : came + {{LOG{1'b0}}, in_valid};
        went <= rst ? 0 : went + {{LOG{1'b0}}, leaves};
    end
    assign m_tvalid = came != went;
    assign {m_tuser, m_tid, m_tdata} = results[went[LOG-1:0]];
endmodule

`default_nettype wire
