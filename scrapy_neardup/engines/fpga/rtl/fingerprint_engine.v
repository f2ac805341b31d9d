// Fingerprint Engine (FE): the paper's Figure 6. Cores behind one 64-bit channel each way.
//
// In each cycle one lane has its turn, `turn`, and may be given a 64-bit word. A document is
// its text, spaces up to seven characters, NUL; what follows the NUL in its word is ignored.
// Fingerprints leave one a cycle.

`default_nettype none

module fingerprint_engine #(
    parameter N = 8,        // cores, 1 to 8 / BYTES
    parameter CW = 24,      // counter bits, 2 to 64
    parameter BYTES = 1,    // characters a cycle and core, 1 or 2
    parameter TIE_GE = 0,
    parameter MIXER = 0,    // 0 none (the paper), 1 light, 2 fmix64, 3 chosen by `select`
    parameter SLOTS = 0,    // 0 priority multiplexer (the paper), 1 each lane in its own slot
    parameter SHARED = 0    // 1: a core's 64 counters share eight adders
) (
    input  wire        clk,
    input  wire        rst,
    input  wire [63:0] key,             // of the mixer
    input  wire [1:0]  select,          // which mixer, 0 to 2, where MIXER = 3
    output reg  [2:0]  turn,            // the lane whose turn it is
    input  wire        in_valid,
    input  wire [63:0] in_word,
    output wire        out_valid,
    output wire [2:0]  out_lane,
    output wire [63:0] out_fingerprint,
    output wire        overflow         // sticky: a fingerprint was lost
);
    localparam ROTATION = 8 / BYTES;
    localparam STAGES = MIXER == 0 ? 0 : MIXER == 1 ? 3 : 10;
    localparam [2:0] LAST_TURN = ROTATION[2:0] - 3'd1;
    // A lane's slot comes so many cycles after the turn of its document's last word.
    localparam [31:0] SLOT = ROTATION + 3 + STAGES + (SHARED != 0 ? 9 : 0);

    // A parameter that does not work names a module that does not exist: no tool goes on from there.
    generate
        if (BYTES != 1 && BYTES != 2) begin : bytes
            BYTES_must_be_1_or_2 refused ();
        end
        if (N < 1 || N > ROTATION) begin : cores
            N_must_be_1_to_8_divided_by_BYTES refused ();
        end
        if (CW < 2 || CW > 64) begin : counters
            CW_must_be_2_to_64 refused ();
        end
        if (MIXER < 0 || MIXER > 3) begin : mixers
            MIXER_must_be_0_to_3 refused ();
        end
        if (TIE_GE != 0 && TIE_GE != 1 || SLOTS != 0 && SLOTS != 1) begin : flags
            TIE_GE_and_SLOTS_must_be_0_or_1 refused ();
        end
        if (SHARED != 0 && SHARED != 1) begin : adders
            SHARED_must_be_0_or_1 refused ();
        end
        if (SHARED != 0 && (BYTES != 1 || CW < 5)) begin : sums
            SHARED_works_with_BYTES_1_and_CW_5_to_64 refused ();
        end
    endgenerate

    always @(posedge clk) turn <= rst ? 3'd0 : (turn + 3'd1) & LAST_TURN;

    wire [N-1:0]    closing;
    wire [64*N-1:0] fingerprint;

    lanes #(
        .N(N), .CW(CW), .BYTES(BYTES), .TIE_GE(TIE_GE), .MIXER(MIXER), .STAGES(STAGES),
        .SHARED(SHARED)
    ) in (
        .clk(clk), .rst(rst), .key(key), .select(select), .turn(turn), .in_valid(in_valid), .in_word(in_word),
        .closing(closing), .fingerprint(fingerprint)
    );

    output_stage #(.N(N), .SLOTS(SLOTS)) out (
        .clk(clk), .rst(rst), .slot((turn + 3'd1 - SLOT[2:0]) & LAST_TURN),
        .closing(closing), .fingerprint(fingerprint),
        .out_valid(out_valid), .out_lane(out_lane), .out_fingerprint(out_fingerprint),
        .overflow(overflow)
    );
endmodule

`default_nettype wire
