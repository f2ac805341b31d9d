// Eight adders for 64 counters give the signs that a counter each would have: proved for all time, in
// two steps. README.md has the commands.
//
//   shared_votes     lanes and mixers keep what shared_counters.v takes for granted of the votes
//   shared_sums      then the signs are right; of the bits of one byte, the bytes are alike

`default_nettype none

// What is taken for granted: no votes in two cycles in a row, none after a document's end in its frame,
// none before the first frame after a reset. The first step asserts it, the second assumes it.
module shared_promise (
    input  wire clk,
    input  wire rst,
    input  wire frame,
    input  wire feature_valid,
    input  wire feature_last,
    output reg  voted,          // in the cycle before
    output reg  last,           // a document has ended in this frame
    output reg  begun,          // a frame has, since reset
    output wire kept
);
    wire any = feature_valid | feature_last;
    assign kept = ~(feature_valid & voted) & ~(any & last & ~frame) & (~any | begun | frame);

    initial {voted, last, begun} = 3'd0;
    always @(posedge clk) begin
        voted <= feature_valid;
        last  <= feature_last | (last & ~frame);
        begun <= begun | frame;
        if (rst) {voted, last, begun} <= 3'd0;
    end
endmodule

// Words of any 64 bits come or do not come in any cycle, with and without the floor, and so do resets.
module shared_votes #(
    parameter N = 8,
    parameter MIXER = 0
) (
    input wire        clk,
    input wire        rst_in,
    input wire        in_valid,
    input wire [63:0] in_word,
    input wire [63:0] key,
    input wire [1:0]  select
);
    localparam STAGES = MIXER == 0 ? 0 : MIXER == 1 ? 3 : 10;
    localparam PAIRED = MIXER != 0 ? (N + 1) / 2 * 2 : N;

    reg       past = 1'b0;
    wire      rst = ~past | rst_in;
    reg [2:0] turn = 3'd0;
    always @(posedge clk) begin
        past <= 1'b1;
        turn <= rst ? 3'd0 : turn + 3'd1;
    end

    lanes #(.N(N), .MIXER(MIXER), .STAGES(STAGES), .SHARED(1)) in (
        .clk(clk), .rst(rst), .key(key), .select(select), .turn(turn), .in_valid(in_valid),
        .in_word(in_word), .closing(), .fingerprint()
    );

    (* hierconn *) wire [PAIRED-1:0] \in.feature_valid , \in.feature_last ;
    (* hierconn *) wire \in.lane[0].core.frame , \in.lane[1].core.frame , \in.lane[2].core.frame ;
    (* hierconn *) wire \in.lane[3].core.frame , \in.lane[4].core.frame , \in.lane[5].core.frame ;
    (* hierconn *) wire \in.lane[6].core.frame , \in.lane[7].core.frame ;
    wire [7:0] frame = {
        \in.lane[7].core.frame , \in.lane[6].core.frame , \in.lane[5].core.frame ,
        \in.lane[4].core.frame , \in.lane[3].core.frame , \in.lane[2].core.frame ,
        \in.lane[1].core.frame , \in.lane[0].core.frame
    };

    genvar i;
    generate
        for (i = 0; i < N; i = i + 1) begin : lane
            wire      kept;
            reg       framed = 1'b0;    // a frame has been since reset
            reg [2:0] since = 3'd0;     // so many cycles ago, modulo eight
            shared_promise promise (
                .clk(clk), .rst(rst), .frame(frame[i]), .feature_valid(\in.feature_valid [i]),
                .feature_last(\in.feature_last [i]), .voted(), .last(), .begun(), .kept(kept)
            );
            always @(posedge clk) begin
                framed <= ~rst & (framed | frame[i]);
                since  <= frame[i] ? 3'd1 : since + 3'd1;
            end
            always @* if (past) assert (kept & (~framed | frame[i] == (since == 3'd0)));
        end
    endgenerate
endmodule

module shared_sums #(
    parameter CW = 5,
    parameter TIE_GE = 0
) (
    input wire        clk,
    input wire        rst_in,
    input wire [2:0]  start,        // the place in its frame of the first cycle after a reset
    input wire        feature_valid,
    input wire        feature_last,
    input wire [63:0] feature
);
    reg         past = 1'b0;        // a cycle has been since reset
    wire        rst = ~past | rst_in;
    reg  [2:0]  place = 3'd0;
    wire        frame = place == 3'd0;
    wire        closing;
    wire [63:0] fingerprint;

    shared_counters #(.CW(CW), .TIE_GE(TIE_GE)) c (
        .clk(clk), .rst(rst), .frame(frame), .feature_valid(feature_valid),
        .feature_last(feature_last), .feature(feature),
        .closing(closing), .fingerprint(fingerprint)
    );

    (* hierconn *) wire [2:0] \c.votes , \c.counted , \c.bit_read , \c.bit_added ;
    (* hierconn *) wire \c.last , \c.ended , \c.empty , \c.fresh , \c.any_word , \c.any_added ;
    (* hierconn *) wire [23:0] \c.bytes[0].ones , \c.bytes[0].held ;
    (* hierconn *) wire [3:0] \c.bytes[0].more ;
    (* hierconn *) wire [6:0] \c.bytes[0].signs ;
    (* hierconn *) wire [8*CW-1:0] \c.sum ;
    (* hierconn *) wire [8*CW-1:0] \c.sums[0] , \c.sums[1] , \c.sums[2] , \c.sums[3] ;
    (* hierconn *) wire [8*CW-1:0] \c.sums[4] , \c.sums[5] , \c.sums[6] , \c.sums[7] ;
    wire [23:0] ones = \c.bytes[0].ones , held = \c.bytes[0].held ;
    wire [3:0]  more = \c.bytes[0].more ;
    wire [6:0]  signs = \c.bytes[0].signs ;
    wire [8*CW-1:0] sums = {
        \c.sums[7] [CW-1:0], \c.sums[6] [CW-1:0], \c.sums[5] [CW-1:0], \c.sums[4] [CW-1:0],
        \c.sums[3] [CW-1:0], \c.sums[2] [CW-1:0], \c.sums[1] [CW-1:0], \c.sums[0] [CW-1:0]
    };
    wire [CW-1:0] total = \c.sum [CW-1:0] + {{(CW - 4) {more[3]}}, more};

    // ---- What is right: a counter each, of zeros up and ones down; a document's end takes the signs.
    reg         any = 1'b0, ended = 1'b0, was_ended = 1'b0, due = 1'b0;
    reg  [1:0]  passes = 2'd0;      // 0 before the first frame, 1 in it, 2 later
    reg  [3:0]  t = 4'd0;           // cycles of the frame so far
    wire        any_now = any | feature_valid;
    wire        voted, last, begun, kept;
    shared_promise promise (
        .clk(clk), .rst(rst), .frame(frame), .feature_valid(feature_valid),
        .feature_last(feature_last), .voted(voted), .last(last), .begun(begun), .kept(kept)
    );

    always @(posedge clk) begin
        past  <= 1'b1;
        place <= rst ? start : place + 3'd1;
        t     <= frame ? 4'd1 : t + 4'd1;
        any   <= ~feature_last & any_now;
        due   <= closing & ~rst;
        if (frame) begin
            ended     <= last;
            was_ended <= ended;
            passes    <= passes == 2'd0 ? 2'd1 : 2'd2;
        end
        if (rst) begin
            {any, ended, was_ended} <= 0;
            passes <= 2'd0;
        end
    end
    always @* if (past) begin
        assume (kept);
        assert (begun == (passes != 2'd0));
        assert (\c.last == last & \c.ended == ended);
        assert (closing == (passes == 2'd2 & t == 4'd1 & was_ended));
        assert (passes != 2'd0 | (\c.empty & \c.fresh & ~ended & ~was_ended));
        assert (passes != 2'd1 | ~was_ended);
        assert (passes == 2'd0 | (~\c.empty & t >= 4'd1 & t <= 4'd8 & frame == (t == 4'd8)));
        assert (passes == 2'd0 | (place == t[2:0] & {1'b0, \c.bit_read } == t - 4'd1));
        assert (due == (passes == 2'd2 & t == 4'd2 & was_ended));
        assert (passes == 2'd0 | t < 4'd2 | {1'b0, \c.bit_added } == t - 4'd2);
        assert (passes != 2'd2 | t != 4'd1 | \c.bit_added == 3'd7);
        assert (passes == 2'd0 | \c.fresh == (passes == 2'd1 | was_ended));
        assert (\c.counted <= 3'd4 & (passes != 2'd0 | \c.counted == 3'd0));
        assert (passes == 2'd0 ? \c.votes == 3'd0 : {1'b0, \c.votes , 1'b0} <= t + voted);
        assert (passes != 2'd0 | ~(last | any | \c.any_word ));
        assert (last ? ~any : any == ((\c.any_word & ~ended) | \c.votes != 3'd0));
        assert (passes == 2'd0 | t < 4'd2 | \c.any_added == \c.any_word );
    end
    function sign(input [CW-1:0] zeros, input has_word);
        sign = zeros[CW-1] | (TIE_GE != 0 & has_word & zeros == {CW{1'b0}});
    endfunction

    reg any_older = 1'b0;       // any_word of the frame before
    always @(posedge clk) if (frame | rst) any_older <= ~rst & \c.any_word ;
    always @* if (past) assert (passes != 2'd2 | t != 4'd1 | \c.any_added == any_older);

    genvar j;
    generate
        for (j = 0; j < 8; j = j + 1) begin : bits
            // The document's sum, and its parts: before the last frame, of that frame, of this one.
            reg  [CW-1:0] counter = 0, base = 0, before = 0, run = 0, older = 0;
            reg           result = 1'b0, closed = 1'b0, answer = 1'b0;
            wire [CW-1:0] vote = !feature_valid ? {CW{1'b0}}
                               : feature[j] ? {CW{1'b1}} : {{(CW - 1) {1'b0}}, 1'b1};
            wire [CW-1:0] counted = counter + vote;
            wire [CW-1:0] so_far = base + before;
            wire [CW-1:0] own = sums[CW*j+:CW];

            always @(posedge clk) begin
                counter <= feature_last ? {CW{1'b0}} : counted;
                if (feature_last) result <= sign(counted, any_now);
                run <= (frame ? {CW{1'b0}} : run) + vote;
                if (frame) begin
                    before <= run;
                    base   <= ended ? {CW{1'b0}} : so_far;
                    older  <= so_far;
                    closed <= result;       // of the frame that ends, if a document ends with it
                    answer <= closed;
                end
                if (rst) {counter, run, before, base, older} <= 0;
            end
            always @* if (past) begin
                assert (passes != 2'd0 | (counter | run | before | base | older) == 0);
                assert (passes != 2'd0 | (ones | held) == 24'd0);
                assert (last ? counter == 0 : counter == (ended ? {CW{1'b0}} : so_far) + run);
                assert (~last | result == sign((ended ? {CW{1'b0}} : so_far) + run,
                                               (\c.any_word & ~ended) | \c.votes != 3'd0));
                assert (~ended | closed == sign(so_far, \c.any_word ));
                assert (~was_ended | answer == sign(older, any_older));
                assert (base == (was_ended ? {CW{1'b0}} : older));
                assert (passes != 2'd1 | (base | older) == 0);
                assert (ones[3*j+:3] <= \c.votes & held[3*j+:3] <= \c.counted );
                assert (run == {{(CW - 3) {1'b0}}, \c.votes } - {{(CW - 4) {1'b0}}, ones[3*j+:3], 1'b0});
                assert (before == {{(CW - 3) {1'b0}}, \c.counted }
                                  - {{(CW - 4) {1'b0}}, held[3*j+:3], 1'b0});
                // The memory: bits below t - 2 have been added, bit t - 2 is being added.
                if (passes == 2'd2 & t == 4'd1) assert ((j == 7 ? total : own) == older);
                if (passes == 2'd2 & t == 4'd1 & j < 7)
                    assert (signs[j % 7] == sign(older, any_older));
                if (passes != 2'd0 & t >= 4'd2) begin
                    assert (t - 4'd2 != j | total == so_far);
                    assert (t - 4'd2 <= j | own == so_far);
                    assert (t - 4'd2 >= j | \c.fresh | own == base);
                    assert (t - 4'd2 <= j | signs[4'd9 - t + j] == sign(so_far, \c.any_word ));
                end
                // What is proved: a document's signs, when its fingerprint has come.
                assert (~due | fingerprint[j] == answer);
            end
        end
    endgenerate
endmodule

`default_nettype wire
