// The core on a ULX3S board (Lattice ECP5): the FTDI chip's serial line at 1 Mbit/s, and LEDs that
// count the documents answered.

`default_nettype none

module ulx3s #(
    parameter N = 8,        // as in simhash_stream.v
    parameter CW = 24,
    parameter BYTES = 1,
    parameter TIE_GE = 0,
    parameter MIXER = 0,
    parameter SLOTS = 0,
    parameter SHARED = 0,
    parameter DIVISOR = 25  // 25 MHz / 1 Mbit/s
) (
    input  wire       clk_25mhz,
    input  wire       ftdi_txd,     // from the host
    output wire       ftdi_rxd,     // to the host
    output wire [7:0] led
);
    reg [3:0] up = 4'd0;            // counts the first cycles after configuration
    always @(posedge clk_25mhz) if (~&up) up <= up + 4'd1;

    simhash_serial #(
        .N(N), .CW(CW), .BYTES(BYTES), .TIE_GE(TIE_GE), .MIXER(MIXER), .SLOTS(SLOTS), .SHARED(SHARED),
        .DIVISOR(DIVISOR)
    ) core (
        .clk(clk_25mhz), .rst_in(~&up), .rx(ftdi_txd), .tx(ftdi_rxd), .answered(led)
    );
endmodule

`default_nettype wire
