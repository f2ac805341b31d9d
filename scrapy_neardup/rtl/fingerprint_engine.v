// Fingerprint Engine (FE): the paper's Figure 6. Cores behind one 64-bit channel each way.
//
// In each cycle one lane has its turn, `turn`, and may be given a 64-bit word; its core takes
// the characters, lowest byte first, in the cycles until its next turn. A document is its
// text, spaces up to seven characters, NUL; what follows the NUL in its word is ignored.
// Fingerprints leave one a cycle; those that must wait do so in their core's register.

`default_nettype none

module fingerprint_engine #(
    parameter N = 8,        // cores, 8 / BYTES at most; an even number if they share mixers
    parameter CW = 24,      // counter bits
    parameter BYTES = 1,    // characters a cycle and core, 1 or 2
    parameter TIE_GE = 0,
    parameter MIXER = 0,    // 0 none (the paper), 1 light, 2 fmix64
    parameter SLOTS = 0     // 0 priority multiplexer (the paper), 1 each lane in its own slot
) (
    input  wire        clk,
    input  wire        rst,
    input  wire [63:0] key,             // of the mixer
    output reg  [2:0]  turn,            // the lane whose turn it is
    input  wire        in_valid,
    input  wire [63:0] in_word,
    output reg         out_valid,
    output reg  [2:0]  out_lane,
    output reg  [63:0] out_fingerprint,
    output reg         overflow         // sticky: a fingerprint was overwritten while it waited
);
    localparam ROTATION = 8 / BYTES;
    localparam STAGES = MIXER == 0 ? 0 : MIXER == 1 ? 3 : 10;
    localparam [2:0] LAST_TURN = ROTATION[2:0] - 3'd1;

    always @(posedge clk) turn <= rst ? 3'd0 : (turn + 3'd1) & LAST_TURN;

    wire [N-1:0]    word_valid, word_last, feature_valid, feature_last, closing;
    wire [64*N-1:0] word_hash, feature, fingerprint;

    // ---- Lanes: a buffer of one word in front of each core.
    genvar i;
    generate
        for (i = 0; i < N; i = i + 1) begin : lanes
            localparam [2:0] LANE = i;
            reg         busy;
            reg  [63:0] buffer;
            wire        ended = buffer[7:0] == 8'd0 | (BYTES == 2 & buffer[15:8] == 8'd0);

            always @(posedge clk) begin
                if (turn == LANE) begin
                    busy <= in_valid;
                    if (in_valid) buffer <= in_word;
                end else if (busy) begin
                    busy   <= ~ended;
                    buffer <= buffer >> 8 * BYTES;
                end
                if (rst) busy <= 1'b0;
            end

            simhash_core #(.CW(CW), .BYTES(BYTES), .TIE_GE(TIE_GE)) core (
                .clk(clk), .rst(rst),
                .chars_valid(busy), .chars(buffer[8*BYTES-1:0]),
                .word_valid(word_valid[i]), .word_last(word_last[i]),
                .word_hash(word_hash[64*i+:64]),
                .feature_valid(feature_valid[i]), .feature_last(feature_last[i]),
                .feature(feature[64*i+:64]),
                .closing(closing[i]), .fingerprint(fingerprint[64*i+:64])
            );
        end
    endgenerate

    // ---- Mixers: none, one for two one-byte cores, or one for each two-byte core.
    generate
        if (MIXER == 0) begin : unmixed
            assign feature_valid = word_valid;
            assign feature_last  = word_last;
            assign feature       = word_hash;
            wire unused = &{1'b0, key};
        end else if (BYTES == 2) begin : own
            for (i = 0; i < N; i = i + 1) begin : mixers
                mixer #(MIXER) mix (
                    clk, rst, key, word_valid[i], word_last[i], word_hash[64*i+:64],
                    feature_valid[i], feature_last[i], feature[64*i+:64]
                );
            end
        end else begin : shared
            for (i = 0; i < N; i = i + 2) begin : mixers
                // Even lanes go in in odd cycles, odd lanes in even ones.
                mixer_turns #(.MIXER(MIXER), .STAGES(STAGES)) mix (
                    clk, rst, key, ~turn[0],
                    word_valid[i+:2], word_last[i+:2], word_hash[64*i+:128],
                    feature_valid[i+:2], feature_last[i+:2], feature[64*i+:128]
                );
            end
        end
    endgenerate

    // ---- Output: a fingerprint waits in its core until it is driven.
    reg  [N-1:0] waiting;
    wire [N-1:0] driven;

    generate
        if (SLOTS != 0) begin : slots
            localparam [31:0] SINCE_FETCH = ROTATION + 3 + STAGES;
            wire [2:0] slot = (turn - SINCE_FETCH[2:0]) & LAST_TURN;
            for (i = 0; i < N; i = i + 1) begin : drive
                localparam [2:0] LANE = i;
                assign driven[i] = waiting[i] & slot == LANE;
            end
        end else begin : priority_multiplexer
            assign driven = waiting & (~waiting + 1'b1);  // the lowest lane
        end
    endgenerate

    integer j;
    reg [2:0]  lane;
    reg [63:0] chosen;
    always @* begin
        lane   = 3'd0;
        chosen = 64'd0;
        for (j = 0; j < N; j = j + 1) begin
            lane   = lane | (driven[j] ? j[2:0] : 3'd0);
            chosen = chosen | (fingerprint[64*j+:64] & {64{driven[j]}});
        end
    end

    always @(posedge clk) begin
        waiting   <= closing | (waiting & ~driven);
        out_valid <= |driven;
        overflow  <= overflow | (|(closing & waiting & ~driven));
        if (|driven) begin
            out_lane        <= lane;
            out_fingerprint <= chosen;
        end
        if (rst) {waiting, out_valid, overflow} <= 0;
    end
endmodule

`default_nettype wire
