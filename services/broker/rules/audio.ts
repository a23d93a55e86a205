import type { AudioFormat } from '../routes/route.ts'
import type { AudioHeader } from '../wire/message.ts'
import type { Rule } from './rule.ts'

const pcm = 0
const monoRates = [16000, 44100, 48000]
/** The number of a route's formats that a message lists. */
const namedFormats = 5

/**
 * Audio is PCM, 16-bit mono at 16, 44.1 or 48 kHz or one of the route's formats. It requires a header with
 * the format, and consists of whole frames: a sample of whole bytes for each channel ("Limits" of the
 * specification). Messages before the first header are not checked.
 */
export function createAudioRule(formats: readonly AudioFormat[]): Rule {
  let header: { readonly audio: AudioHeader | undefined } | undefined

  return {
    judge(message) {
      if (message.part === 'header') {
        header = message
        return message.audio && judgeFormat(message.audio, formats)
      }
      if (message.part !== 'data' || message.audio === undefined || header === undefined) return undefined
      return judgeAudio(message.audio.bytes, header.audio)
    },
  }
}

function judgeFormat(audio: AudioHeader, formats: readonly AudioFormat[]): string | undefined {
  if (audio.format !== pcm) return `audio format ${audio.format} is found, ${pcm} (PCM) is allowed`
  if (isAlwaysAllowed(audio) || formats.some(format => isFormat(format, audio))) return undefined
  return `${describeFormat(audio)} is found, ${describeAllowed(formats)} is allowed`
}

function isAlwaysAllowed({ channelCount, bitsPerSample, samplesPerSecond }: AudioHeader): boolean {
  return channelCount === 1 && bitsPerSample === 16 && monoRates.includes(samplesPerSecond)
}

function isFormat(format: AudioFormat, audio: AudioHeader): boolean {
  return (
    isValue(format.channelCount, audio.channelCount) &&
    isValue(format.samplesPerSecond, audio.samplesPerSecond) &&
    isValue(format.bitsPerSample, audio.bitsPerSample)
  )
}

/** An allowed 0 matches any value except 0. */
const isValue = (allowed: number, found: number) => found > 0 && (allowed === 0 || allowed === found)

function judgeAudio(bytes: number, audio: AudioHeader | undefined): string | undefined {
  if (bytes === 0) return undefined
  if (audio === undefined)
    return `${bytes} bytes of audio are found, none are allowed: the header has no audio`
  const frameBytes = audio.channelCount * Math.ceil(audio.bitsPerSample / 8)
  if (frameBytes === 0 || bytes % frameBytes === 0) return undefined
  return `${bytes} bytes of audio are found, a multiple of ${frameBytes} is allowed`
}

function describeFormat({ channelCount, samplesPerSecond, bitsPerSample }: AudioFormat): string {
  const channels = channelCount === 1 ? 'mono' : channelCount === 2 ? 'stereo' : `${channelCount}-channel`
  return `${samplesPerSecond} Hz ${bitsPerSample}-bit ${channels}`
}

function describeAllowed(formats: readonly AudioFormat[]): string {
  const named = formats
    .slice(0, namedFormats)
    .map(format => describeFormat(format).replaceAll(/\b0\b/g, 'any'))
  const more = formats.length > namedFormats ? ` or ${formats.length - namedFormats} more formats` : ''
  return ['16000, 44100 or 48000 Hz 16-bit mono', ...named].join(' or ') + more
}
