// One byte more in a CRC-32, as in Ethernet and zlib: begin with all ones, end with the complement.

`default_nettype none

module crc32 (
    input  wire [31:0] crc,
    input  wire [7:0]  data,
    output reg  [31:0] longer
);
    integer i;
    always @* begin
        longer = crc ^ {24'd0, data};
        for (i = 0; i < 8; i = i + 1)
            longer = longer[0] ? (longer >> 1) ^ 32'hedb88320 : longer >> 1;
    end
endmodule

`default_nettype wire
