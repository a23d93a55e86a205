import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type AudioFormat, defaultRoute, type RouteRules } from './routes/route.ts'
import { ruleNames, StreamRules } from './stream-rules.ts'
import { checkText, parseText } from './testing/rules-under-test.ts'

/** Tests a rule with lines: a request, an arrow, and `ok` or the violations, separated by ` | `. */
function testLines(name: string, lines: readonly string[], audioFormats: readonly AudioFormat[] = []): void {
  const rules: RouteRules = { ...defaultRoute.rules, audioFormats }
  for (const line of lines) {
    const [request = '', expected] = line.split('->').map(part => part.trim())
    test(`the rule ${name} checks: ${request}`, () => {
      const found = checkText(request, rules).map(violation => violation.text)
      assert.equal(found.join(' | ') || 'ok', expected)
    })
  }
}

testLines('order', [
  'header; data; SUCCESS; end -> ok',
  'header; data; data; INFO; data; ERROR; end -> ok',
  'header; INFO; data; SUCCESS; INFO; end -> ok',
  'header; ERROR; end -> ok',
  'header; SUCCESS; end -> order #2: the request ended without data',
  'header; end -> order #1: the request ended with header, a status is allowed as the last',
  'header; data; end -> order #2: the request ended with data, a status is allowed as the last',
  'header; data; SUCCESS; data; end -> order #4: the request ended with data, a status is allowed as the last',
  'end -> order #0: the request ended without a header',
  'data; header -> order #0: a data message is found, a header is allowed as the first',
  'SUCCESS; header; data -> order #0: a status message is found, a header is allowed as the first',
  'header; header; data -> order #1: a second header is found, one is allowed',
  'header; data; header -> order #2: a second header is found, one is allowed',
  'header; nothing; data -> order #1: neither header nor data nor status is found, one of them is allowed',
  'header; data; SUCCESS; nothing; end -> order #3: neither header nor data nor status is found, one of them is allowed',
])

testLines('time codes', [
  'header 52bs; data @0,0.03; data @0.06,0.09 -> ok',
  'header 52bs; data @0,0.03; data @0.02,0.05 -> timeCodes #2: 0.02 is found, more than 0.03 is allowed, where message 1 ended',
  'header 52bs; data @0,0.03; data @0.03 -> timeCodes #2: 0.03 is found, more than 0.03 is allowed, where message 1 ended',
  'header 52bs; data @0.03,0.02 -> timeCodes #1: weights: 0.02 is found after 0.03, more than that is allowed',
  'header 52bs; data @0,0.01,0.01,0.02 -> timeCodes #1: weights: 0.01 is found after 0.01, more than that is allowed',
  'header 52bs; data @0,0.02,0.01,0.005 -> timeCodes #1: weights: 0.01 is found after 0.02, more than that is allowed',
  'header 1bs 2j; data @0,1 translations@0,1 rotations@0,1 scales@0,1 -> ok',
  'header 1bs 2j; data @0,1 translations@1,0 -> timeCodes #1: translations: 0 is found after 1, more than that is allowed',
  'header 1bs 2j; data @0,1 rotations@1,1 -> timeCodes #1: rotations: 1 is found after 1, more than that is allowed',
  'header 1bs 2j; data @0,1 scales@2,1 -> timeCodes #1: scales: 1 is found after 2, more than that is allowed',
  'header 1bs 2j; data @0,1 rotations@0,3; data @2 -> timeCodes #2: 2 is found, more than 3 is allowed, where message 1 ended',
  'header 1bs 2j; data @2; data rotations@1 weights@3 -> timeCodes #2: 1 is found, more than 2 is allowed, where message 1 ended',
  'header 1bs; data @-2,-1; data @-0.5; data @0 -> ok',
  'header 1bs; data @-1,-2 -> timeCodes #1: weights: -2 is found after -1, more than that is allowed',
  'header 1bs; data @0,-0 -> timeCodes #1: weights: 0 is found after 0, more than that is allowed',
  'header 1bs; data @0; data @-0 -> timeCodes #2: 0 is found, more than 0 is allowed, where message 1 ended',
  'header 1bs; data @NaN -> timeCodes #1: weights: NaN is found, a finite number is allowed',
  'header 1bs; data @0,NaN,1; data @2 -> timeCodes #1: weights: NaN is found, a finite number is allowed',
  'header 1bs; data @0,Infinity; data @1 -> timeCodes #1: weights: Infinity is found, a finite number is allowed',
  'header 1bs; data @-Infinity,0; data @1 -> timeCodes #1: weights: -Infinity is found, a finite number is allowed',
  'header 1bs; data @1; data @NaN; data @0.5 -> timeCodes #2: weights: NaN is found, a finite number is allowed | timeCodes #3: 0.5 is found, more than 1 is allowed, where message 1 ended',
  'header 1bs; data @1; data skel; data audio:0; data @0.5 -> timeCodes #4: 0.5 is found, more than 1 is allowed, where message 1 ended',
  'header 1bs; data @1; INFO; data camera@0; data @2 -> ok',
  'header 1bs; data @1; data @1e9; data @2; data @3 -> timeCodes #3: 2 is found, more than 1000000000 is allowed, where message 2 ended',
  'header; data skel; data skel -> ok',
])

testLines('counts', [
  'header 52bs; data @0x52; data @1,2x52 -> ok',
  'header 52bs; data @0x51 -> counts #1: 51 weights are found, 52 are allowed: the header names 52 blend shapes',
  'header 52bs; data @0x53 -> counts #1: 53 weights are found, 52 are allowed: the header names 52 blend shapes',
  'header 52bs; data @0x52 @1x51 -> counts #1: 51 weights are found, 52 are allowed: the header names 52 blend shapes',
  'header 52bs; data @0x52 @1x53 -> counts #1: 53 weights are found, 52 are allowed: the header names 52 blend shapes',
  'header 52bs; data @0x0 -> counts #1: 0 weights are found, 52 are allowed: the header names 52 blend shapes',
  'header; data @0x52 -> counts #1: 52 weights are found, 0 are allowed: the header names 0 blend shapes',
  'header 3j; data translations@0x3 rotations@0x3 scales@0x3 -> ok',
  'header 3j; data translations@0x2 -> counts #1: 2 translations are found, 3 are allowed: the header names 3 joints',
  'header 3j; data rotations@0x4 -> counts #1: 4 rotations are found, 3 are allowed: the header names 3 joints',
  'header 3j; data scales@0x1 -> counts #1: 1 scales are found, 3 are allowed: the header names 3 joints',
  'header 9bs 3j; data audio:0; data skel -> ok',
  'data @0x3; header 4bs; data @1x4 -> order #0: a data message is found, a header is allowed as the first',
])

testLines('audio', [
  'header 16000Hz; data audio:1066; data audio:2 -> ok',
  'header 44100Hz; data audio:2 -> ok',
  'header 48000Hz 1ch 16bit; data audio:0 -> ok',
  'header 16000Hz; data audio:1067 -> audio #1: 1067 bytes of audio are found, a multiple of 2 is allowed',
  'header; data audio:0 -> ok',
  'header; data audio:2 -> audio #1: 2 bytes of audio are found, none are allowed: the header has no audio',
  'header 22050Hz -> audio #0: 22050 Hz 16-bit mono is found, 16000, 44100 or 48000 Hz 16-bit mono is allowed',
  'header 16000Hz 2ch; data audio:6 -> audio #0: 16000 Hz 16-bit stereo is found, 16000, 44100 or 48000 Hz 16-bit mono is allowed | audio #1: 6 bytes of audio are found, a multiple of 4 is allowed',
  'header 16000Hz 8bit; data audio:3 -> audio #0: 16000 Hz 8-bit mono is found, 16000, 44100 or 48000 Hz 16-bit mono is allowed',
  'header 16000Hz 0ch; data audio:3 -> audio #0: 16000 Hz 16-bit 0-channel is found, 16000, 44100 or 48000 Hz 16-bit mono is allowed',
  'header 16000Hz format1 -> audio #0: audio format 1 is found, 0 (PCM) is allowed',
  'data audio:3; header 16000Hz; data audio:2 -> order #0: a data message is found, a header is allowed as the first',
])

const stereoAtAnyRate = { channelCount: 2, samplesPerSecond: 0, bitsPerSample: 24 }
testLines(
  'audio of 24-bit stereo by the route',
  [
    'header 96000Hz 2ch 24bit; data audio:6 -> ok',
    'header 16000Hz; data audio:2 -> ok',
    'header 96000Hz 2ch 24bit; data audio:4 -> audio #1: 4 bytes of audio are found, a multiple of 6 is allowed',
    'header 0Hz 2ch 24bit -> audio #0: 0 Hz 24-bit stereo is found, 16000, 44100 or 48000 Hz 16-bit mono or any Hz 24-bit stereo is allowed',
    'header 96000Hz 2ch 16bit -> audio #0: 96000 Hz 16-bit stereo is found, 16000, 44100 or 48000 Hz 16-bit mono or any Hz 24-bit stereo is allowed',
    'header 8000Hz 2ch 24bit format1 -> audio #0: audio format 1 is found, 0 (PCM) is allowed',
  ],
  [stereoAtAnyRate],
)

testLines(
  'audio of 12 bits by the route, in samples of 2 bytes',
  [
    'header 8000Hz 12bit; data audio:4 -> ok',
    'header 8000Hz 12bit; data audio:3 -> audio #1: 3 bytes of audio are found, a multiple of 2 is allowed',
  ],
  [{ channelCount: 1, samplesPerSecond: 8000, bitsPerSample: 12 }],
)

test('a message lists only some of many formats', () => {
  const audioFormats = [1, 2, 3, 4, 5, 6, 7].map(rate => ({ ...stereoAtAnyRate, samplesPerSecond: rate }))
  const [violation] = checkText('header 8000Hz', { ...defaultRoute.rules, audioFormats })
  assert.match(violation?.text ?? '', /or 5 Hz 24-bit stereo or 2 more formats is allowed$/)
})

test('a message can break several rules; each violation has its mode and its count', () => {
  const rules: RouteRules = { ...defaultRoute.rules, timeCodes: 'reject' }
  const found = checkText('header 2bs; data @1,0x3 audio:7; data @2x3', rules)
  assert.deepEqual(
    found.map(({ rule, mode, messageNumber, nth }) => `${rule} ${mode} ${messageNumber} ${nth}`),
    ['timeCodes reject 1 1', 'counts warn 1 1', 'audio warn 1 1', 'counts warn 2 2'],
  )
})

test('a rule that is off is not checked', () => {
  const off = { order: 'off', timeCodes: 'off', counts: 'off', audio: 'off', audioFormats: [] } as const
  const wrong = 'data @1,0x3 audio:7; header 2bs 7Hz; header 2bs 7Hz; data @1,0x3 audio:7; nothing; end'
  for (const name of ruleNames) {
    const found = new Set(checkText(wrong, { ...off, [name]: 'warn' }).map(({ rule }) => rule))
    assert.deepEqual([...found], [name])
  }
  assert.deepEqual(checkText(wrong, off), [])
})

test('the summary counts violations by rule', () => {
  const rules = new StreamRules(defaultRoute.rules)
  assert.equal(rules.summary(), '')
  rules.check(parseText('header 52bs'), 0)
  for (let number = 1; number <= 12; number += 1) rules.check(parseText('data @7'), number)
  rules.check(parseText('data @8x3'), 13)
  rules.end(14)
  assert.equal(rules.summary(), 'order ×1, timeCodes ×11, counts ×1')
})

test('the rule for time codes agrees with a naive implementation', () => {
  const timeCode = fc.oneof(
    fc.integer({ min: -3, max: 9 }),
    fc.constantFrom(Number.NaN, Infinity, -Infinity, -0),
  )
  const lists = fc.array(fc.array(timeCode, { maxLength: 4 }), { maxLength: 5 })
  fc.assert(
    fc.property(lists, messages => {
      const steps = messages.map(codes => (codes.length === 0 ? 'data skel' : `data @${codes.join(',')}`))
      const found = checkText(['header 1bs', ...steps].join(';'), { ...defaultRoute.rules, counts: 'off' })
      assert.deepEqual(
        found.map(({ messageNumber }) => messageNumber - 1),
        brokenByReading(messages),
      )
    }),
  )
})

/**
 * Returns the messages with a time code that is not finite, or not above the one before it or the end of the
 * message before.
 */
function brokenByReading(messages: readonly (readonly number[])[]): number[] {
  const broken: number[] = []
  let before = -Infinity
  for (const [index, codes] of messages.entries()) {
    const finite = codes.filter(Number.isFinite)
    const isRising = codes.every((code, at) => at === 0 || code > (codes[at - 1] ?? Infinity))
    const isAfter = finite.every(code => code > before)
    if (finite.length < codes.length || !isRising || !isAfter) broken.push(index)
    if (finite.length > 0) before = Math.max(...finite)
  }
  return broken
}
