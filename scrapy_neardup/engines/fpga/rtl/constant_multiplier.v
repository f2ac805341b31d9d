// a * B modulo 2**64 in three registers: products, pairs of rows, sum.

`default_nettype none

module constant_multiplier #(
    parameter [63:0] B = 64'd1
) (
    input  wire        clk,
    input  wire [63:0] a,
    output reg  [63:0] product
);
    // Product of digits i and j weighs 2**(16 * (i + j)).
    reg [31:0] p00, p01, p10, p02, p11, p20;
    reg [15:0] p03, p12, p21, p30;
    reg [63:0] even, odd;
    reg [31:0] high;

    always @(posedge clk) begin
        p00 <= a[15:0] * B[15:0];
        p01 <= a[15:0] * B[31:16];
        p10 <= a[31:16] * B[15:0];
        p02 <= a[15:0] * B[47:32];
        p11 <= a[31:16] * B[31:16];
        p20 <= a[47:32] * B[15:0];
        p03 <= a[15:0] * B[63:48];
        p12 <= a[31:16] * B[47:32];
        p21 <= a[47:32] * B[31:16];
        p30 <= a[63:48] * B[15:0];

        even <= {p02, p00} + {p11, 32'd0};
        odd  <= {p03, p01, 16'd0} + {p12, p10, 16'd0};
        high <= p20 + {p21 + p30, 16'd0};

        product <= even + odd + {high, 32'd0};
    end
endmodule

`default_nettype wire
