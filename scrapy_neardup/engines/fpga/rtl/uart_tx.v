// Bytes onto a serial line: 8 bits, no parity, one stop bit, lowest bit first.

`default_nettype none

module uart_tx #(
    parameter DIVISOR = 25      // clock cycles a bit, as in uart_rx.v
) (
    input  wire       clk,
    input  wire       rst,
    input  wire       valid,
    output wire       ready,
    input  wire [7:0] data,
    output wire       tx
);
    localparam [31:0] BIT = DIVISOR - 1;

    reg [9:0]  shift;           // stop bit, data, start bit; ones when idle
    reg [3:0]  bits;            // to go
    reg [15:0] wait_for;
    assign ready = bits == 4'd0;
    assign tx    = shift[0];

    always @(posedge clk) begin
        if (ready) begin
            if (valid) begin
                shift    <= {1'b1, data, 1'b0};
                bits     <= 4'd10;
                wait_for <= BIT[15:0];
            end
        end else if (wait_for != 0) wait_for <= wait_for - 16'd1;
        else begin
            shift    <= {1'b1, shift[9:1]};
            bits     <= bits - 4'd1;
            wait_for <= BIT[15:0];
        end
        if (rst) begin
            shift <= 10'h3ff;
            bits  <= 4'd0;
        end
    end
endmodule

`default_nettype wire
