// Documents off an AXI4-Stream: which lane each takes, and the 64-bit words that its core wants.
//
// A document is the beats of one tid up to tlast; up to N documents may be interleaved. It takes
// the lowest lane that is free: none of its words waits, and its last document has ended.
// NUL, padding and the floor of seven characters are made here:
//
//   NUL in the text           becomes a space, and is flagged
//   tkeep                     ones from the lowest byte; fewer than eight only with tlast, none at
//                             all for an empty document. Anything else is flagged: bytes from the
//                             first hole on are dropped at the end and spaces before it
//   text too long             flagged: its words could make a counter wrap

`default_nettype none

module stream_in #(
    parameter N = 8,        // lanes
    parameter CW = 24,      // counter bits, 4 or more
    parameter ID = 8        // bits of tid
) (
    input  wire            clk,
    input  wire            rst,
    input  wire            s_tvalid,
    output wire            s_tready,
    input  wire [63:0]     s_tdata,
    input  wire [7:0]      s_tkeep,
    input  wire            s_tlast,
    input  wire [ID-1:0]   s_tid,
    input  wire [N-1:0]    full,            // of the lanes' queues
    input  wire [N-1:0]    empty,
    output wire            word_valid,      // a word for a lane's queue
    output wire [2:0]      word_lane,
    output wire            word_last,       // the one with the NUL
    output wire [63:0]     word,
    output reg  [ID*N-1:0] id,              // of each lane's document
    output reg  [3*N-1:0]  flags,           // of each lane's document: NUL, tkeep, too long
    output wire            started,         // a document takes a lane
    output wire            busy,
    output wire            blocked          // N documents are open and a beat is of another one
);
    localparam [7:0] SPACE = 8'd32;
    localparam BEATS = CW - 2;              // counts to 2**(CW - 3), from where a text is too long
    localparam [BEATS-1:0] MOST = {1'b1, {(BEATS - 1) {1'b0}}};

    // ---- One beat waits here, so that tready does not depend on what comes in.
    reg          held, last;
    reg [63:0]   data;
    reg [7:0]    keep;
    reg [ID-1:0] tid;
    wire         take;
    assign s_tready = ~held | take;

    always @(posedge clk) begin
        if (s_tready) begin
            held <= s_tvalid;
            data <= s_tdata;
            keep <= s_tkeep;
            last <= s_tlast;
            tid  <= s_tid;
        end
        if (rst) held <= 1'b0;
    end

    // ---- The lane: that of the document if it is open, else the lowest that is free.
    reg  [N-1:0] open;
    wire [N-1:0] match;
    wire [N-1:0] free = ~open & empty;
    wire         first = match == {N{1'b0}};
    wire [N-1:0] lane = first ? free & (~free + 1'b1) : match;

    reg          ending;        // a word with nothing but the NUL follows
    reg  [2:0]   ending_lane;
    wire         has_room = |(lane & ~full);
    assign       take = held & ~ending & has_room;
    assign       started = take & first;
    assign       busy = held | ending | (|open);
    assign       blocked = held & first & (&open);

    integer j;
    reg [2:0]       lane_number;
    reg             ending_room;
    reg [BEATS-1:0] previous;             // beats of the document before this one
    always @* begin
        lane_number = 3'd0;
        previous = {BEATS{1'b0}};
        ending_room = 1'b0;
        for (j = 0; j < N; j = j + 1) begin
            if (lane[j]) lane_number = lane_number | j[2:0];
            if (match[j]) previous = previous | beats[BEATS*j+:BEATS];
            if (ending_lane == j[2:0]) ending_room = ~full[j];
        end
    end

    // ---- The word.
    reg  [63:0] made;
    reg  [3:0]  n_bytes;
    reg         has_nul, whole;
    wire [3:0]  nul_at = first && n_bytes < 4'd7 ? 4'd7 : n_bytes;
    always @* begin
        n_bytes = 4'd0;
        whole   = 1'b1;                 // no hole so far
        for (j = 0; j < 8; j = j + 1) begin
            whole = whole & keep[j];
            if (whole) n_bytes = n_bytes + 4'd1;
        end
    end
    always @* begin
        has_nul = 1'b0;
        for (j = 0; j < 8; j = j + 1) begin
            if (j[3:0] < n_bytes) begin
                has_nul = has_nul | data[8*j+:8] == 8'd0;
                made[8*j+:8] = data[8*j+:8] == 8'd0 ? SPACE : data[8*j+:8];
            end else made[8*j+:8] = last && j[3:0] >= nul_at ? 8'd0 : SPACE;
        end
    end
    wire bad_keep = |(keep & (keep + 8'd1)) | (~last & ~&keep);
    wire too_long = last & (previous == MOST | (previous == MOST - 1'b1 & n_bytes >= 4'd7));

    assign word_valid = take | (ending & ending_room);
    assign word_lane  = ending ? ending_lane : lane_number;
    assign word       = ending ? 64'd0 : made;
    assign word_last  = ending | (last & ~n_bytes[3]);

    always @(posedge clk) begin
        if (take) begin
            ending      <= last & n_bytes[3];
            ending_lane <= lane_number;
        end else if (ending_room) ending <= 1'b0;
        if (rst) ending <= 1'b0;
    end

    reg [BEATS*N-1:0] beats;
    genvar i;
    generate
        for (i = 0; i < N; i = i + 1) begin : lanes
            assign match[i] = open[i] & id[ID*i+:ID] == tid;

            always @(posedge clk) begin
                if (take & lane[i]) begin
                    open[i]         <= ~last;
                    id[ID*i+:ID]    <= tid;
                    flags[3*i+:3]   <= {too_long, bad_keep, has_nul}
                                       | (first ? 3'd0 : flags[3*i+:3]);
                    beats[BEATS*i+:BEATS] <= previous == MOST ? MOST : previous + 1'b1;
                end
                if (rst) open[i] <= 1'b0;
            end
        end
    endgenerate
endmodule

`default_nettype wire
