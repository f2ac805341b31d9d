// The mixer that a parameter names: 1 light, 2 fmix64, 3 any of them, chosen by `select`.

`default_nettype none

module mixer #(
    parameter MIXER = 1
) (
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
    generate
        if (MIXER == 1) begin : light
            mixer_light mix (clk, rst, key, word_valid, word_last, word_hash,
                             feature_valid, feature_last, feature);
        end else if (MIXER == 2) begin : fmix64
            mixer_fmix64 mix (clk, rst, key, word_valid, word_last, word_hash,
                              feature_valid, feature_last, feature);
        end else begin : any
            mixer_any mix (clk, rst, key, select, word_valid, word_last, word_hash,
                           feature_valid, feature_last, feature);
        end
        if (MIXER != 3) begin : fixed
            wire unused = &{1'b0, select};
        end
    endgenerate
endmodule

`default_nettype wire
