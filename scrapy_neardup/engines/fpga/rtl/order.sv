// Results leave with the id, the flags and the fingerprint of their document, and those of a lane in
// the order of its documents, however long the receiver waits: proved for all time, in three steps.
//
//   order_queues     the words of a lane go to it in the order in which they came, each once, and none
//                    while there is no place for a result
//   order_ids        no word comes for a queue that is full; id and flags of a lane's document stay until
//                    its last word goes, which is the one with a NUL, after seven characters at least
//   order_out        results leave with the id, the flags and the fingerprint of their document, in order
//
// The steps before give the last one what it assumes of the words. What it assumes of the engine is
// proved in no_loss.sv: it answers the documents of a lane in order, each once, and at most eight of a
// lane are in it (no_loss_inside).

`default_nettype none

module order_queues #(
    parameter N = 2,
    parameter LOG = 2
) (
    input wire        clk,
    input wire        in_valid,
    input wire        in_lane,
    input wire        in_last,
    input wire [63:0] in_word,
    input wire        next,
    input wire        may_leave,
    input wire        watch             // the word that comes now, if none is watched
);
    reg         rst = 1'b1;
    wire [1:0]  full, empty;
    wire        stalled, out_valid, out_last;
    wire [63:0] out_word;
    always @(posedge clk) rst <= 1'b0;

    lane_queues #(.N(N), .LOG(LOG)) queues (
        .clk(clk), .rst(rst), .in_valid(in_valid), .in_lane({2'd0, in_lane}), .in_last(in_last),
        .in_word(in_word), .full(full), .empty(empty), .next({2'd0, next}), .may_leave(may_leave),
        .stalled(stalled), .out_valid(out_valid), .out_last(out_last), .out_word(out_word)
    );

    (* hierconn *) wire \queues.leaves ;
    (* hierconn *) wire [2*LOG-1:0] \queues.written , \queues.taken ;
    (* hierconn *) wire [2*LOG+1:0] \queues.count ;
    (* hierconn *) wire [64:0] \queues.memory[0] , \queues.memory[1] , \queues.memory[2] , \queues.memory[3] ;
    (* hierconn *) wire [64:0] \queues.memory[4] , \queues.memory[5] , \queues.memory[6] , \queues.memory[7] ;

    // ---- The word that is watched.
    reg        in_queue = 1'b0, due = 1'b0, had_place = 1'b0, its_lane;
    reg [64:0] its, stored;
    reg [2:0]  ahead;           // words of its lane that come before it
    wire [2:0] count_in = in_lane ? \queues.count [5:3] : \queues.count [2:0];
    wire [2:0] count_its = its_lane ? \queues.count [5:3] : \queues.count [2:0];
    wire [1:0] taken_its = its_lane ? \queues.taken [3:2] : \queues.taken [1:0];
    wire       moves = in_queue & \queues.leaves & next == its_lane;
    wire       begins = watch & in_valid & ~in_queue & ~due;

    always @(posedge clk) begin
        had_place <= ~rst & may_leave;
        due       <= moves & ahead == 3'd0;
        if (begins) begin
            in_queue <= 1'b1;
            its_lane <= in_lane;
            its      <= {in_last, in_word};
            ahead    <= count_in - {2'd0, \queues.leaves & next == in_lane};
        end
        if (moves) ahead <= ahead - 3'd1;
        if (moves & ahead == 3'd0) in_queue <= 1'b0;
    end
    wire [1:0] at = taken_its + ahead[1:0];
    always @*
        case ({its_lane, at})
            3'd0: stored = \queues.memory[0] ;
            3'd1: stored = \queues.memory[1] ;
            3'd2: stored = \queues.memory[2] ;
            3'd3: stored = \queues.memory[3] ;
            3'd4: stored = \queues.memory[4] ;
            3'd5: stored = \queues.memory[5] ;
            3'd6: stored = \queues.memory[6] ;
            3'd7: stored = \queues.memory[7] ;
        endcase

    always @* assume (~in_valid | (~rst & ~full[in_lane]));
    always @* if (!rst) begin
        assert (~due | (out_valid & {out_last, out_word} == its));
        assert (~out_last | had_place);
        // For the induction: how full the queues are, and where the word is.
        assert (\queues.count [2:0] <= 3'd4 & \queues.count [5:3] <= 3'd4);
        assert (\queues.written [1:0] == \queues.taken [1:0] + \queues.count [1:0]);
        assert (\queues.written [3:2] == \queues.taken [3:2] + \queues.count [4:3]);
        assert (~in_queue | (~due & ahead < count_its & stored == its));
        assert (~out_valid | had_place);
    end
    always @* if (rst) assert (~in_queue & ~due & ~had_place);
endmodule

module order_ids #(
    parameter N = 2,
    parameter ID = 2,
    parameter LOG = 2
) (
    input wire          clk,
    input wire          s_tvalid,
    input wire [63:0]   s_tdata,
    input wire [7:0]    s_tkeep,
    input wire          s_tlast,
    input wire [ID-1:0] s_tid,
    input wire          next,
    input wire          may_leave
);
    reg             rst = 1'b1;
    wire [1:0]      full, empty;
    wire            word_valid, word_last, out_valid, out_last;
    wire [2:0]      word_lane;
    wire [63:0]     word, out_word;
    wire [2*ID-1:0] id;
    wire [5:0]      flags;
    always @(posedge clk) rst <= 1'b0;

    stream_in #(.N(N), .CW(4), .ID(ID)) in (
        .clk(clk), .rst(rst), .s_tvalid(s_tvalid), .s_tready(), .s_tdata(s_tdata), .s_tkeep(s_tkeep),
        .s_tlast(s_tlast), .s_tid(s_tid), .full(full), .empty(empty), .word_valid(word_valid),
        .word_lane(word_lane), .word_last(word_last), .word(word), .id(id), .flags(flags),
        .started(), .busy(), .blocked()
    );
    lane_queues #(.N(N), .LOG(LOG)) queues (
        .clk(clk), .rst(rst), .in_valid(word_valid), .in_lane(word_lane), .in_last(word_last),
        .in_word(word), .full(full), .empty(empty), .next({2'd0, next}), .may_leave(may_leave),
        .stalled(), .out_valid(out_valid), .out_last(out_last), .out_word(out_word)
    );

    wire [7:0] nuls;
    genvar i, j;
    generate
        for (i = 0; i < 8; i = i + 1) assign nuls[i] = word[8*i+:8] == 8'd0;
    endgenerate

    (* hierconn *) wire \in.take , \in.ending , \in.last ;
    (* hierconn *) wire [2:0] \in.ending_lane ;
    (* hierconn *) wire [1:0] \in.open , \in.lane ;
    (* hierconn *) wire [2*LOG-1:0] \queues.written , \queues.taken ;
    (* hierconn *) wire [2*LOG+1:0] \queues.count ;
    (* hierconn *) wire [64:0] \queues.memory[0] , \queues.memory[1] , \queues.memory[2] , \queues.memory[3] ;
    (* hierconn *) wire [64:0] \queues.memory[4] , \queues.memory[5] , \queues.memory[6] , \queues.memory[7] ;
    wire [7:0] lasts = {
        \queues.memory[7] [64], \queues.memory[6] [64], \queues.memory[5] [64], \queues.memory[4] [64],
        \queues.memory[3] [64], \queues.memory[2] [64], \queues.memory[1] [64], \queues.memory[0] [64]
    };

    reg turn = 1'b0;            // the lane that the word which goes is for
    always @(posedge clk) turn <= next;

    always @* if (!rst) begin
        assert (~word_valid | (word_lane < N & ~full[word_lane[0]]));
        assert (~word_valid | word_last == |nuls);
        // For the induction: open documents have ids of their own, so that a beat is of one at most.
        assert (~&\in.open | id[2*ID-1:ID] != id[ID-1:0]);
        assert (~\in.ending | \in.ending_lane < N);
    end

    generate
        for (i = 0; i < N; i = i + 1) begin : lane
            // From the cycle after its last beat was taken until its last word goes.
            reg           ended = 1'b0, held = 1'b0;
            reg           fresh = 1'b1;         // the next word begins a document
            reg  [ID+2:0] was;
            wire [ID+2:0] now = {flags[3*i+:3], id[ID*i+:ID]};
            wire          comes = ~rst & word_valid & word_lane == i;
            wire          ends = \in.take & \in.lane [i] & \in.last ;
            wire          goes = out_last & turn == i;
            wire          nul_due = \in.ending & \in.ending_lane == i;
            wire [2:0]    count = \queues.count [3*i+:3];
            wire [1:0]    first = \queues.taken [2*i+:2];
            wire [3:0]    ours = lasts[4*i+:4];

            always @(posedge clk) begin
                ended <= ~rst & (ends | (ended & ~goes));
                held  <= ~rst & ended & ~goes;
                was   <= now;
                if (comes) fresh <= word_last;
            end
            always @* if (!rst) begin
                assert (~(comes & fresh) | ~|nuls[6:0]);
                assert (~held | now == was);        // what order_out reads when the last word goes
                assert (~goes | ended);             // and it goes once
                // For the induction: the last word of the lane's document is the last in its queue.
                assert (count <= 3'd4 & \queues.written [2*i+:2] == first + count[1:0]);
                assert (fresh == ~(\in.open [i] | nul_due));
                assert (~(ended & \in.open [i]) & (~nul_due | ended));
                assert (~ended | nul_due | count != 3'd0 | goes);
                assert (~goes | (count == 3'd0 & ~nul_due));
                assert (~(~ended & ~\in.open [i]) | count == 3'd0);
                assert (~(out_valid & turn == i) | out_last == (ended & ~nul_due & count == 3'd0));
            end
            for (j = 0; j < 4; j = j + 1) begin : word_ahead
                wire [1:0] place = first + j;
                always @* if (!rst & count > j)
                    assert (ours[place] == (ended & ~nul_due & count == j + 1));
            end
            always @* if (rst) assert (~ended & ~held);
        end
    endgenerate
endmodule

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
