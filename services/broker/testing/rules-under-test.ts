import assert from 'node:assert/strict'
import type { RouteRules } from '../routes/route.ts'
import { StreamRules, type Violation } from '../stream-rules.ts'
import type { Message } from '../wire/message.ts'
import { readMessage } from '../wire/read-message.ts'
import { animationStatusCodes, encodeStatusMessage, type Status } from '../wire/status.ts'
import { encodeData, encodeHeader } from '../wire/testing/encode-messages.ts'

/**
 * Checks a request in text form. A `;` separates its messages:
 *
 *     header 52bs 20j 16000Hz 2ch 24bit format3   blend shapes, joints, the audio's format (mono of 16 bits)
 *     data @0,0.03                                two arrays of weights, as many in each as the header names
 *     data rotations@0x19 weights@0x51            arrays of 19 rotations and 51 weights
 *     data skel, data audio:1066, data camera@1   an empty animation, bytes of audio, a track of the camera
 *     SUCCESS, INFO, WARNING, ERROR               a status
 *     nothing                                     a message without any part
 *     end                                         the producer has no more
 */
export function checkText(text: string, rules: RouteRules): Violation[] {
  const checker = new StreamRules(rules)
  const names = { blendShapes: 0, joints: 0 }
  return text.split(';').flatMap((step, number) => {
    const [verb = '', ...words] = step.trim().split(/\s+/)
    if (verb === 'end') return checker.end(number)
    return checker.check(readMessage(encodeStep(verb, words, names)), number)
  })
}

type Names = { blendShapes: number; joints: number }

function encodeStep(verb: string, words: readonly string[], names: Names): Uint8Array {
  if (verb === 'header') return encodeHeaderStep(words, names)
  if (verb === 'data') return encodeDataStep(words, names)
  if (verb === 'nothing') return new Uint8Array()
  assert.ok(isStatusCode(verb), `no message is called ${verb}`)
  return encodeStatusMessage({ code: verb, message: '' })
}

const isStatusCode = (verb: string): verb is Status['code'] =>
  animationStatusCodes.some(code => code === verb)

function encodeHeaderStep(words: readonly string[], names: Names): Uint8Array {
  const text = words.join(' ')
  const number = (pattern: RegExp) => {
    const found = pattern.exec(text)?.[1]
    return found === undefined ? undefined : Number(found)
  }
  names.blendShapes = number(/(\d+)bs/) ?? 0
  names.joints = number(/(\d+)j/) ?? 0
  const samplesPerSecond = number(/(\d+)Hz/)
  return encodeHeader({
    skelAnimationHeader: {
      blendShapes: Array.from({ length: names.blendShapes }, (_, index) => `shape${index}`),
      joints: Array.from({ length: names.joints }, (_, index) => `joint${index}`),
    },
    ...(samplesPerSecond !== undefined && {
      audioHeader: {
        audioFormat: number(/format(\d+)/) ?? 0,
        channelCount: number(/(\d+)ch/) ?? 1,
        samplesPerSecond,
        bitsPerSample: number(/(\d+)bit/) ?? 16,
      },
    }),
  })
}

const dataWord =
  /^(?:(audio):(\d+)|(skel)|(camera|weights|translations|rotations|scales)?@([^x]*?)(?:x(\d+))?)$/

function encodeDataStep(words: readonly string[], names: Names): Uint8Array {
  const lists = new Map<string, { timeCode: number; values: number }[]>()
  let audioBytes: number | undefined
  for (const word of words) {
    const [, audio, bytes, skel, list = 'weights', timeCodes = '', count] =
      dataWord.exec(word) ?? assert.fail(word)
    if (audio !== undefined) audioBytes = Number(bytes)
    if (audio !== undefined || skel !== undefined) continue
    const values = Number(count ?? (list === 'weights' ? names.blendShapes : names.joints))
    const arrays = timeCodes.split(',').map(timeCode => ({ timeCode: Number(timeCode), values }))
    lists.set(list, [...(lists.get(list) ?? []), ...arrays])
  }
  const arrays = <Value>(list: string, value: Value) =>
    (lists.get(list) ?? []).map(({ timeCode, values }) => ({
      timeCode,
      values: Array.from({ length: values }, () => value),
    }))
  const isSkel = words.includes('skel') || [...lists.keys()].some(list => list !== 'camera')
  return encodeData({
    ...(isSkel && {
      skelAnimation: {
        blendShapeWeights: arrays('weights', 0.5),
        translations: arrays('translations', { x: 1 }),
        rotations: arrays('rotations', { real: 1 }),
        scales: arrays('scales', { z: 1 }),
      },
    }),
    ...(audioBytes !== undefined && { audio: { audioBuffer: new Uint8Array(audioBytes) } }),
    camera: { focalLength: (lists.get('camera') ?? []).map(({ timeCode }) => ({ timeCode, value: 1 })) },
  })
}

export const parseText = (text: string): Message => {
  const [verb = '', ...words] = text.split(' ')
  return readMessage(encodeStep(verb, words, { blendShapes: 52, joints: 0 }))
}
