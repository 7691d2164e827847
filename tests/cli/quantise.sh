# Codes and scales: kept, decoded, encoded again, spread over ranks, refused.
make_checkpoint fp8 hub
run inspect hub
run plan hub --dequantize
run convert hub same
cmp hub/config.json same/config.json && echo 'config.json is the same'
run convert hub values --dequantize
diff hub/config.json values/config.json
run inspect values --all
grep decoded values/weightloom.json
run verify values hub --dequantize
run convert values again --quantize fp8-block
run verify again hub
grep -A 12 quantization_config again/config.json
echo '[{"pattern": "*up_proj*", "placements": [{"axis": "tp", "shard": 1}]}, {"pattern": "*", "placements": []}]' >columns.json
run plan hub --dequantize --mesh tp=2 --placements columns.json
run convert hub ranks --mesh tp=2 --placements columns.json
run inspect ranks
sed -i 's/"shard": 1/"shard": 1, "units": [1, 2]/' columns.json
run convert hub uneven --mesh tp=2 --placements columns.json
sed -i 's/      2,/      3,/' hub/config.json
run convert hub out --dequantize
run convert values out --quantize mxfp4
run convert values out --quantize int4
