// Results leave with the id, the flags and the fingerprint of their document, and those of a lane in
// the order of its documents, however long the receiver waits: proved of stream_out.v, for all time.
//
// Any one document is watched: from the cycle in which its last word goes to its lane until its
// result leaves. What the engine does is assumed, and proved in no_loss.sv: it answers the documents
// of a lane in order, each once, and at most eight of a lane are in it.

`default_nettype none

module order_out #(
    parameter N = 2,
    parameter ID = 2,
    parameter LOG = 2
) (
    input wire            clk,
    input wire            last_goes,
    input wire            lane,
    input wire [ID*N-1:0] id,
    input wire [3*N-1:0]  flags,
    input wire            in_valid,
    input wire            in_lane,
    input wire [63:0]     in_fingerprint,
    input wire            m_tready,
    input wire            watch             // the document that goes now, if none is watched
);
    localparam [LOG:0] ALL = 1 << LOG;

    reg           rst = 1'b1;
    wire          place, m_tvalid, busy;
    wire [63:0]   m_tdata;
    wire [ID-1:0] m_tid;
    wire [2:0]    m_tuser;
    always @(posedge clk) rst <= 1'b0;

    stream_out #(.N(N), .ID(ID), .LOG(LOG)) out (
        .clk(clk), .rst(rst), .last_goes(last_goes), .lane({2'd0, lane}), .id(id), .flags(flags),
        .place(place), .in_valid(in_valid), .in_lane({2'd0, in_lane}),
        .in_fingerprint(in_fingerprint), .m_tvalid(m_tvalid), .m_tready(m_tready),
        .m_tdata(m_tdata), .m_tid(m_tid), .m_tuser(m_tuser), .busy(busy)
    );

    (* hierconn *) wire [LOG:0] \out.places , \out.came , \out.went ;
    (* hierconn *) wire [3*N-1:0] \out.asked , \out.answered ;
    (* hierconn *) wire [ID+2:0] \out.documents[0] , \out.documents[1] , \out.documents[2] , \out.documents[3] , \out.documents[4] , \out.documents[5] , \out.documents[6] , \out.documents[7] ;
    (* hierconn *) wire [ID+2:0] \out.documents[8] , \out.documents[9] , \out.documents[10] , \out.documents[11] , \out.documents[12] , \out.documents[13] , \out.documents[14] , \out.documents[15] ;
    (* hierconn *) wire [ID+66:0] \out.results[0] , \out.results[1] , \out.results[2] , \out.results[3] ;

    // ---- What is in the engine, and what may happen.
    reg  [3:0] inside0 = 4'd0, inside1 = 4'd0;
    reg        had_place = 1'b0;
    wire       goes0 = last_goes & ~lane, goes1 = last_goes & lane;
    wire       comes0 = in_valid & ~in_lane, comes1 = in_valid & in_lane;
    wire       leaves = m_tvalid & m_tready;
    wire [3:0] inside = lane ? inside1 : inside0;

    always @(posedge clk) begin
        had_place <= ~rst & place;
        inside0   <= inside0 + {3'd0, goes0} - {3'd0, comes0};
        inside1   <= inside1 + {3'd0, goes1} - {3'd0, comes1};
    end
    always @* begin
        assume (~last_goes | (~rst & had_place));
        assume (~goes0 | inside0 < 4'd8);
        assume (~goes1 | inside1 < 4'd8);
        assume (~in_valid | ~rst);
        assume (~comes0 | inside0 != 4'd0);
        assume (~comes1 | inside1 != 4'd0);
    end

    // ---- The document that is watched.
    reg          in_engine = 1'b0, in_queue = 1'b0, its_lane;
    reg [ID+2:0] document;
    reg [63:0]   fingerprint;
    reg [3:0]    ahead;         // documents of its lane, or results, that come before it
    wire         begins = watch & last_goes & ~in_engine & ~in_queue;
    wire         moves = in_engine & in_valid & in_lane == its_lane;
    wire [LOG:0] n_results = \out.came - \out.went ;
    wire [3:0]   inside_its = its_lane ? inside1 : inside0;

    always @(posedge clk) begin
        if (begins) begin
            in_engine <= 1'b1;
            its_lane  <= lane;
            document  <= lane ? {flags[5:3], id[2*ID-1:ID]} : {flags[2:0], id[ID-1:0]};
            ahead     <= inside - {3'd0, in_valid & in_lane == lane};
        end
        if (moves & ahead != 4'd0) ahead <= ahead - 4'd1;
        if (moves & ahead == 4'd0) begin
            in_engine   <= 1'b0;
            in_queue    <= 1'b1;
            fingerprint <= in_fingerprint;
            ahead       <= n_results - {3'd0, leaves};
        end
        if (in_queue & leaves) begin
            if (ahead == 4'd0) in_queue <= 1'b0;
            else ahead <= ahead - 4'd1;
        end
    end

    reg [ID+2:0]  stored;
    reg [ID+66:0] stored_result;
    wire [2:0]    answered = its_lane ? \out.answered [5:3] : \out.answered [2:0];
    wire [2:0]    at = answered + ahead[2:0];
    wire [1:0]    at_result = \out.went [1:0] + ahead[1:0];
    always @* begin
        case ({its_lane, at})
            4'd0: stored = \out.documents[0] ;
            4'd1: stored = \out.documents[1] ;
            4'd2: stored = \out.documents[2] ;
            4'd3: stored = \out.documents[3] ;
            4'd4: stored = \out.documents[4] ;
            4'd5: stored = \out.documents[5] ;
            4'd6: stored = \out.documents[6] ;
            4'd7: stored = \out.documents[7] ;
            4'd8: stored = \out.documents[8] ;
            4'd9: stored = \out.documents[9] ;
            4'd10: stored = \out.documents[10] ;
            4'd11: stored = \out.documents[11] ;
            4'd12: stored = \out.documents[12] ;
            4'd13: stored = \out.documents[13] ;
            4'd14: stored = \out.documents[14] ;
            4'd15: stored = \out.documents[15] ;
        endcase
        case (at_result)
            2'd0: stored_result = \out.results[0] ;
            2'd1: stored_result = \out.results[1] ;
            2'd2: stored_result = \out.results[2] ;
            2'd3: stored_result = \out.results[3] ;
        endcase
    end

    always @* if (!rst) begin
        assert (~(in_queue & ahead == 4'd0) | (m_tvalid & m_tdata == fingerprint
                                               & {m_tuser, m_tid} == document));
        // For the induction: every place is free, in the engine, or waits; and where ours is.
        assert (\out.places + n_results + inside0 + inside1 == ALL);
        assert (\out.places <= ALL & n_results <= ALL & inside0 <= ALL & inside1 <= ALL);
        assert (~had_place | \out.places != 0);
        assert (\out.asked [2:0] == \out.answered [2:0] + inside0[2:0]);
        assert (\out.asked [5:3] == \out.answered [5:3] + inside1[2:0]);
        assert (~(in_engine & in_queue));
        assert (~in_engine | (ahead < inside_its & stored == document));
        assert (~in_queue | (ahead < n_results & stored_result == {document, fingerprint}));
    end
    always @* if (rst) assert (~in_engine & ~in_queue & inside0 == 0 & inside1 == 0);
endmodule

`default_nettype wire
