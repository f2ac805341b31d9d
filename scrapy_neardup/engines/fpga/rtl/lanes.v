// Lanes: what a fingerprint engine does up to its output. A buffer and a core each, and mixers.
//
// In the cycle of its turn a lane may be given a 64-bit word; its core takes the characters,
// lowest byte first, in the cycles until its next turn.

`default_nettype none

module lanes #(
    parameter N = 8,        // as in fingerprint_engine.v
    parameter CW = 24,
    parameter BYTES = 1,
    parameter TIE_GE = 0,
    parameter MIXER = 0,
    parameter STAGES = 0,   // of the mixer
    parameter SHARED = 0
) (
    input  wire            clk,
    input  wire            rst,
    input  wire [63:0]     key,
    input  wire [1:0]      select,          // of the mixer, where MIXER = 3
    input  wire [2:0]      turn,
    input  wire            in_valid,
    input  wire [63:0]     in_word,
    output wire [N-1:0]    closing,         // the lane's fingerprint takes a new value
    output wire [64*N-1:0] fingerprint      // of each lane; it stays until the next one
);
    // Where two lanes share a mixer and N is odd, the last one shares it with nobody.
    localparam PAIRED = MIXER != 0 & BYTES == 1 ? (N + 1) / 2 * 2 : N;

    wire [PAIRED-1:0]    word_valid, word_last, feature_valid, feature_last;
    wire [64*PAIRED-1:0] word_hash, feature;

    genvar i;
    generate
        for (i = 0; i < N; i = i + 1) begin : lane
            localparam [2:0] LANE = i;
            // A word's votes come from so many cycles after its turn on, for eight cycles.
            localparam [31:0] FRAME = i + 2 + STAGES;
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

            simhash_core #(
                .CW(CW), .BYTES(BYTES), .TIE_GE(TIE_GE), .SHARED(SHARED)
            ) core (
                .clk(clk), .rst(rst),
                .chars_valid(busy), .chars(buffer[8*BYTES-1:0]),
                .word_valid(word_valid[i]), .word_last(word_last[i]),
                .word_hash(word_hash[64*i+:64]),
                .feature_valid(feature_valid[i]), .feature_last(feature_last[i]),
                .feature(feature[64*i+:64]), .frame(turn == FRAME[2:0]),
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
            wire unused = &{1'b0, key, select, STAGES[0]};
        end else if (BYTES == 2) begin : own
            for (i = 0; i < N; i = i + 1) begin : mixers
                mixer #(MIXER) mix (
                    clk, rst, key, select, word_valid[i], word_last[i], word_hash[64*i+:64],
                    feature_valid[i], feature_last[i], feature[64*i+:64]
                );
            end
        end else begin : shared
            for (i = 0; i < N; i = i + 2) begin : mixers
                // Even lanes go in in odd cycles, odd lanes in even ones.
                mixer_turns #(.MIXER(MIXER), .STAGES(STAGES)) mix (
                    clk, rst, key, select, ~turn[0],
                    word_valid[i+:2], word_last[i+:2], word_hash[64*i+:128],
                    feature_valid[i+:2], feature_last[i+:2], feature[64*i+:128]
                );
            end
        end
        if (PAIRED > N) begin : nobody
            assign word_valid[N] = 1'b0;
            assign word_last[N]  = 1'b0;
            assign word_hash[64*N+:64] = 64'd0;
            wire unused = &{1'b0, feature_valid[N], feature_last[N], feature[64*N+:64]};
        end
    endgenerate
endmodule

`default_nettype wire
