// Bytes off a serial line: 8 bits, no parity, one stop bit, lowest bit first.
//
// Each bit is read in its middle. A byte without its stop bit is dropped.

`default_nettype none

module uart_rx #(
    parameter DIVISOR = 25      // clock cycles a bit, 4 to 65535
) (
    input  wire       clk,
    input  wire       rst,
    input  wire       rx,
    output reg        valid,    // for one cycle
    output reg  [7:0] data
);
    localparam [31:0] BIT = DIVISOR - 1, HALF = DIVISOR / 2 - 1;

    reg [2:0]  line;            // two registers against metastability, and what they read before
    reg        receiving;
    reg [15:0] wait_for;
    reg [3:0]  bits;            // to come: start bit, eight of data, stop bit

    always @(posedge clk) begin
        line  <= {line[1:0], rx};
        valid <= 1'b0;
        if (!receiving) begin
            receiving <= line[2] & ~line[1];
            wait_for  <= HALF[15:0];
            bits      <= 4'd9;
        end else if (wait_for != 0) wait_for <= wait_for - 16'd1;
        else begin
            wait_for <= BIT[15:0];
            bits     <= bits - 4'd1;
            if (bits == 4'd9) receiving <= ~line[1];        // else no start bit, but noise
            else if (bits == 4'd0) begin
                receiving <= 1'b0;
                valid     <= line[1];
            end else data <= {line[1], data[7:1]};
        end
        if (rst) begin
            receiving <= 1'b0;
            valid     <= 1'b0;
            line      <= 3'b111;
        end
    end
endmodule

`default_nettype wire
