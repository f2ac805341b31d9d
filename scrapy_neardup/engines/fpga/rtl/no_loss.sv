// No fingerprint is lost, doubled or late under any pattern of arrivals, with all lanes: proved.
//
// In four steps, each proved by induction for all time from reset (README.md has the commands):
//
//   no_loss_lanes    each document makes its lane close once, in a cycle of its own that follows
//                    from its last word; closings of a lane are a rotation apart, given the floor
//   no_loss_core     a core's fingerprint changes when it closes and at no other time
//   no_loss_output   if closings of a lane are so far apart, each is followed by one output of
//                    that lane, at most N - 1 cycles late, with the fingerprint of that closing
//   no_loss_inside   of the whole engine: at most eight documents of a lane are in it, and none is
//                    answered that is not
//
// `assert` is what is proved, `assume` what a step takes for granted: of the world outside, or
// from the step before.

`default_nettype none

// Words come or not, in any cycle, with any 64 bits, but no NUL among the first FLOOR characters of
// a document.
module no_loss_lanes #(
    parameter N = 8,
    parameter BYTES = 1,
    parameter MIXER = 0,
    parameter SHARED = 0,
    parameter FLOOR = 7
) (
    input wire        clk,
    input wire        in_valid,
    input wire [63:0] in_word
);
    localparam ROTATION = 8 / BYTES;
    localparam STAGES = MIXER == 0 ? 0 : MIXER == 1 ? 3 : 10;
    // From a document's last word to its closing. With shared adders it always takes this long.
    localparam LONGEST = SHARED != 0 ? 19 + STAGES : ROTATION + 2 + STAGES;
    localparam [2:0] LAST_TURN = ROTATION[2:0] - 3'd1;

    reg          rst = 1'b1;
    reg  [2:0]   turn = 3'd0;
    wire [7:0]   is_nul;
    wire [N-1:0] closing;

    always @(posedge clk) begin
        rst  <= 1'b0;
        turn <= rst ? 3'd0 : (turn + 3'd1) & LAST_TURN;
    end

    genvar i;
    generate
        for (i = 0; i < 8; i = i + 1) assign is_nul[i] = in_word[8*i+:8] == 8'd0;
    endgenerate

    lanes #(.N(N), .BYTES(BYTES), .MIXER(MIXER), .STAGES(STAGES), .SHARED(SHARED)) in (
        .clk(clk), .rst(rst), .key(64'd0), .select(2'd0), .turn(turn), .in_valid(in_valid), .in_word(in_word),
        .closing(closing), .fingerprint()
    );

    // A character each cycle and three registers; of two lanes with one mixer one may wait.
    integer k;
    reg  [2:0] nul;     // where the document ends in its last word
    wire [4:0] delay = SHARED != 0 ? LONGEST
                     : nul / BYTES + 3 + STAGES + (MIXER != 0 & BYTES == 1 & ~nul[0]);
    always @* begin
        nul = 3'd0;
        for (k = 7; k >= 0; k = k - 1) if (is_nul[k]) nul = k[2:0];
    end

    generate
        for (i = 0; i < N; i = i + 1) begin : lane
            localparam [2:0] LANE = i;
            reg              fresh = 1'b1;      // the next word begins a document
            reg  [LONGEST:0] due = 0;           // bit n: a document closes the lane in n cycles
            reg  [3:0]       age = ROTATION;    // cycles since it closed, or ROTATION
            wire             given = ~rst & in_valid & turn == LANE, ends = given & |is_nul;
            wire [LONGEST:0] more = {{LONGEST{1'b0}}, ends} << delay;

            always @(posedge clk) begin
                if (given) fresh <= |is_nul;
                due <= (due | more) >> 1;
                age <= closing[i] ? 4'd1 : age == ROTATION ? age : age + 4'd1;
            end
            always @* begin
                assume (~(ends & fresh & nul < FLOOR));
                assert (~ends | (delay > 2 + STAGES & delay <= LONGEST));
                assert (~|(due & more));
                assert (rst | closing[i] == due[0]);
                assert (rst | ~closing[i] | age == ROTATION);
            end
        end
    endgenerate

    always @* assume (~in_valid | turn < N);
endmodule

module no_loss_core #(
    parameter BYTES = 1,
    parameter SHARED = 0
) (
    input wire               clk,
    input wire               rst,
    input wire [8*BYTES-1:0] chars,
    input wire               chars_valid,
    input wire               feature_valid,
    input wire               feature_last,
    input wire               frame,
    input wire [63:0]        feature
);
    wire        closing;
    wire [63:0] fingerprint;
    reg  [63:0] was;
    reg         may_differ = 1'b1;

    simhash_core #(.BYTES(BYTES), .SHARED(SHARED)) core (
        .clk(clk), .rst(rst), .chars_valid(chars_valid), .chars(chars),
        .word_valid(), .word_last(), .word_hash(), .feature_valid(feature_valid),
        .feature_last(feature_last), .feature(feature), .frame(frame),
        .closing(closing), .fingerprint(fingerprint)
    );

    always @(posedge clk) begin
        was        <= fingerprint;
        may_differ <= closing;
    end
    always @* assert (may_differ | fingerprint == was);
endmodule

// Lanes close at any time that no_loss_lanes leaves them.
module no_loss_output #(
    parameter N = 8,
    parameter ROTATION = 8,
    parameter SLOTS = 0,
    parameter GAP = ROTATION    // cycles between closings of a lane, at least
) (
    input wire            clk,
    input wire [N-1:0]    closing,
    input wire [64*N-1:0] fingerprint
);
    localparam LATEST = SLOTS != 0 ? ROTATION : N;  // cycles from closing until driven

    reg             rst = 1'b1;
    reg  [2:0]      slot = 3'd0;
    reg  [64*N-1:0] was;
    wire            out_valid, overflow;
    wire [2:0]      out_lane;
    wire [63:0]     out_fingerprint;

    always @(posedge clk) begin
        rst  <= 1'b0;
        slot <= slot == ROTATION - 1 ? 3'd0 : slot + 3'd1;
        was  <= fingerprint;
    end

    output_stage #(.N(N), .SLOTS(SLOTS)) out (
        .clk(clk), .rst(rst), .slot(slot), .closing(closing), .fingerprint(fingerprint),
        .out_valid(out_valid), .out_lane(out_lane), .out_fingerprint(out_fingerprint),
        .overflow(overflow)
    );

    (* hierconn *) wire [N-1:0] \out.waiting , \out.driven ;
    wire [N-1:0] waiting = \out.waiting , driven = \out.driven ;
    wire [4*N-1:0] ages;

    genvar i;
    generate
        for (i = 0; i < N; i = i + 1) begin : lane
            localparam [2:0] LANE = i;
            reg  [3:0] age = LATEST + 1;    // cycles since the lane closed, or LATEST + 1
            reg        came = 1'b1;         // the fingerprint of that closing
            reg        closed = 1'b0;       // since the lane's slot
            wire       comes = out_valid & out_lane == LANE;
            assign     ages[4*i+:4] = age;

            always @(posedge clk) begin
                age    <= closing[i] ? 4'd1 : age > LATEST ? age : age + 4'd1;
                came   <= age != 4'd1 & (came | comes);
                closed <= slot != LANE & (closed | closing[i]);
            end
            always @* begin
                assume (~closing[i] | (~rst & (SLOTS != 0 ? ~closed : age >= GAP)));
                assume (age == 4'd1 | fingerprint[64*i+:64] == was[64*i+:64]);
                assert (~rst | (came & age > LATEST));
                assert (rst | ~comes | ~came);                              // not doubled
                assert (rst | age != 4'd1 | came | comes);                  // not lost
                assert (rst | age != LATEST + 1 | came | comes);            // not late
                assert (rst | ~comes | out_fingerprint == was[64*i+:64]);   // not another's
                // For the induction: what waits or comes has not come.
                assert (rst | {1'b0, waiting[i]} + {1'b0, comes}
                           == {1'b0, age == 4'd1} + {1'b0, ~came});
            end
        end
    endgenerate

    always @* assert (rst | ~overflow);

    // Why it holds, for the induction. With slots a lane waits if it closed since its own.
    generate
        if (SLOTS == 0) begin : why
            no_loss_waiting #(.N(N), .ROTATION(ROTATION)) backlog (rst, waiting, driven, ages);
        end else begin : why
            for (i = 0; i < N; i = i + 1) begin : lane_why
                localparam [2:0] AFTER = i + 1;
                wire [2:0] since = (slot - AFTER) & (ROTATION[2:0] - 3'd1);
                always @* begin
                    assert (rst | lane[i].closed == (waiting[i] & ~driven[i]));
                    assert (rst | ~lane[i].closed | ages[4*i+:4] <= since);
                    assert (rst | ~driven[i] | (waiting[i] & since == 3'd0));
                end
            end
        end
    endgenerate
endmodule

// With the priority multiplexer how many of the lanes up to any one are waiting follows from when
// they closed. Of those that closed in the last d cycles, d - 1 have left; it is the d up to a
// rotation that leaves most. Numbers are so many ones.
module no_loss_waiting #(
    parameter N = 8,
    parameter ROTATION = 8
) (
    input wire           rst,
    input wire [N-1:0]   waiting,
    input wire [N-1:0]   driven,
    input wire [4*N-1:0] ages           // cycles since each lane closed, or more than N
);
    always @* assert (rst | driven == (waiting & (~waiting + 1'b1)));

    genvar i;
    generate
        for (i = 0; i < N; i = i + 1) begin : lane
            integer     j, d;
            reg [N-1:0] backlog, closed, most;

            always @* begin
                backlog = 0;
                for (j = 0; j <= i; j = j + 1) if (waiting[j]) backlog = backlog << 1 | 1'b1;
                most = 0;
                for (d = 1; d <= ROTATION; d = d + 1) begin
                    closed = 0;
                    for (j = 0; j <= i; j = j + 1)
                        if (ages[4*j+:4] <= d) closed = closed << 1 | 1'b1;
                    most = most | closed >> d - 1;
                end
                assert (rst | backlog == most);
            end
        end
    endgenerate
endmodule

// How many documents of a lane are in the whole engine: from their last word until their output.
module no_loss_inside #(
    parameter N = 2,
    parameter BYTES = 1,
    parameter MIXER = 0,
    parameter SLOTS = 0,
    parameter SHARED = 0,
    parameter MOST = 8          // documents of a lane, as many as stream_out.v keeps
) (
    input wire        clk,
    input wire        in_valid,
    input wire [63:0] in_word
);
    localparam FLOOR = 7;
    localparam ROTATION = 8 / BYTES;
    localparam STAGES = MIXER == 0 ? 0 : MIXER == 1 ? 3 : 10;
    localparam LONGEST = SHARED != 0 ? 19 + STAGES : ROTATION + 2 + STAGES;

    reg         rst = 1'b1;
    wire [2:0]  turn, out_lane;
    wire        out_valid, overflow;
    wire [7:0]  is_nul;
    always @(posedge clk) rst <= 1'b0;

    genvar i, j;
    generate
        for (i = 0; i < 8; i = i + 1) assign is_nul[i] = in_word[8*i+:8] == 8'd0;
    endgenerate

    fingerprint_engine #(
        .N(N), .BYTES(BYTES), .MIXER(MIXER), .SLOTS(SLOTS), .SHARED(SHARED)
    ) engine (
        .clk(clk), .rst(rst), .key(64'd0), .select(2'd0), .turn(turn), .in_valid(in_valid),
        .in_word(in_word), .out_valid(out_valid), .out_lane(out_lane), .out_fingerprint(),
        .overflow(overflow)
    );

    (* hierconn *) wire [N-1:0] \engine.closing , \engine.out.waiting , \engine.out.driven ;
    wire [N-1:0] closing = \engine.closing , waiting = \engine.out.waiting ;
    wire [N-1:0] driven = \engine.out.driven ;
    wire [4*N-1:0] ages;

    integer k;
    reg  [2:0] nul;
    wire [4:0] delay = SHARED != 0 ? LONGEST
                     : nul / BYTES + 3 + STAGES + (MIXER != 0 & BYTES == 1 & ~nul[0]);
    always @* begin
        nul = 3'd0;
        for (k = 7; k >= 0; k = k - 1) if (is_nul[k]) nul = k[2:0];
    end

    generate
        for (i = 0; i < N; i = i + 1) begin : lane
            localparam [2:0] LANE = i;
            reg              fresh = 1'b1;
            reg  [LONGEST:0] due = 0;           // as in no_loss_lanes
            reg  [3:0]       inside = 4'd0;
            reg  [3:0]       n_due;
            reg  [3:0]       age = 4'd9;        // cycles since it closed, or nine
            assign           ages[4*i+:4] = age;
            wire             given = ~rst & in_valid & turn == LANE, ends = given & |is_nul;
            wire             comes = ~rst & out_valid & out_lane == LANE;
            wire [LONGEST:0] more = {{LONGEST{1'b0}}, ends} << delay;

            always @(posedge clk) begin
                if (given) fresh <= |is_nul;
                due    <= (due | more) >> 1;
                age    <= closing[i] & ~rst ? 4'd1 : age == 4'd9 ? age : age + 4'd1;
                inside <= inside + {3'd0, ends} - {3'd0, comes};
            end
            always @* begin
                n_due = 4'd0;
                for (k = 0; k <= LONGEST; k = k + 1) n_due = n_due + {3'd0, due[k]};
            end
            always @* begin
                assume (~(ends & fresh & nul < FLOOR));
                // What order_out takes for granted of the engine.
                assert (rst | ~ends | inside < MOST);
                assert (rst | ~comes | inside != 4'd0);
                // For the induction: they close one after the other, wait, and leave.
                assert (rst | inside == n_due + {3'd0, waiting[i]} + {3'd0, comes});
                assert (rst | closing[i] == due[0]);
                assert (rst | ~(closing[i] & waiting[i] & ~driven[i]));
            end
            for (j = 1; j < ROTATION; j = j + 1) begin : apart
                always @* assert (~|(due & due >> j));
            end
        end
        if (SLOTS == 0) begin : why
            no_loss_waiting #(.N(N), .ROTATION(ROTATION)) backlog (rst, waiting, driven, ages);
        end else begin : why
            always @* assert (rst | (driven & (driven - 1'b1)) == 0);
        end
    endgenerate

    always @* assume (~in_valid | turn < N);
    always @* assert (rst | ~overflow);
endmodule

`default_nettype wire
