// The mixer that a parameter names: 1 light, 2 fmix64.

`default_nettype none

module mixer #(
    parameter MIXER = 1
) (
    input  wire        clk,
    input  wire        rst,
    input  wire [63:0] key,
    input  wire        word_valid,
    input  wire        word_last,
    input  wire [63:0] word_hash,
    output wire        feature_valid,
    output wire        feature_last,
    output wire [63:0] feature
);
    generate
        if (MIXER == 1) begin : light
            mixer_light mix (clk, rst, key, word_valid, word_last, word_hash,
                             feature_valid, feature_last, feature);
        end else begin : fmix64
            mixer_fmix64 mix (clk, rst, key, word_valid, word_last, word_hash,
                              feature_valid, feature_last, feature);
        end
    endgenerate
endmodule

`default_nettype wire
