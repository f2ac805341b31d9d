// All three mixers, of which a register chooses one: `select` is 0 none, 1 light, 2 fmix64.
//
// Each takes the ten registers of fmix64, so that the timing does not depend on the choice. It may
// change only while no document is in the engine. `none` leaves the key out, as the paper does.

`default_nettype none

module mixer_any (
    input  wire        clk,
    input  wire        rst,
    input  wire [63:0] key,
    input  wire [1:0]  select,
    input  wire        word_valid,
    input  wire        word_last,
    input  wire [63:0] word_hash,
    output wire        feature_valid,
    output wire        feature_last,
    output wire [63:0] feature
);
    localparam LATER = 7;   // stages that fmix64 has and the light mixer has not

    wire        light_valid, light_last;
    wire [63:0] light, fmix64;

    mixer_light mix1 (clk, rst, key, word_valid, word_last, word_hash,
                      light_valid, light_last, light);
    mixer_fmix64 mix2 (clk, rst, key, word_valid, word_last, word_hash,
                       feature_valid, feature_last, fmix64);
    wire unused = &{1'b0, light_valid, light_last};

    // Both wait in one shift register: the light mixer's three stages are those of the plain hash.
    reg [64*3-1:0]     plain;
    reg [64*LATER-1:0] waiting;
    always @(posedge clk) begin
        plain   <= {plain[127:0], word_hash};
        waiting <= {waiting[64*(LATER-1)-1:0], select == 2'd1 ? light : plain[191:128]};
    end

    assign feature = select == 2'd2 ? fmix64 : waiting[64*LATER-1-:64];
endmodule

`default_nettype wire
