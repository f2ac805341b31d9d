"""The FPGA core of Luo, Najjar and Hristidis as a model: same bits as every engine, counted cycles.

Read in this order: design (what is built, and every choice the paper leaves open), core and
fingerprint_engine (one clock cycle at a time, beside the paper's Figures 6 to 8), scheduler
(the same cycles from document lengths alone), board (the whole machine), engine (what a
crawl uses), verilog, rtl_build and rtl_engine (the same in Verilog, simulated by Verilator).
"""
