import { Buffer } from 'node:buffer'
import { bytesPerSample, type Sound } from './wav.ts'

/** The formants of the vowels A, E, I, O and U, in hertz. */
const vowels = [
  [730, 1090],
  [530, 1840],
  [270, 2290],
  [570, 840],
  [300, 870],
] as const

const syllablesPerSecond = 3
/** Every sixth syllable is a pause. */
const pauseEvery = 6

/** Generates a sound that resembles a voice. The result is deterministic. */
export function makeSpeech(seconds: number, samplesPerSecond = 16000): Sound {
  const count = Math.round(seconds * samplesPerSecond)
  const samples = Buffer.alloc(count * bytesPerSample)
  let phase = 0
  for (let index = 0; index < count; index += 1) {
    const time = index / samplesPerSecond
    const pitch = 115 + 20 * Math.sin(2 * Math.PI * 0.4 * time)
    phase += pitch / samplesPerSecond
    const value = loudnessAt(time) * voice(phase, pitch, vowelAt(time))
    samples.writeInt16LE(Math.round(value * 0x6000), index * bytesPerSample)
  }
  return { channelCount: 1, samplesPerSecond, samples }
}

const syllableAt = (time: number) => Math.floor(time * syllablesPerSecond)

function vowelAt(time: number): readonly [number, number] {
  return vowels[(syllableAt(time) * 3) % vowels.length] ?? vowels[0]
}

function loudnessAt(time: number): number {
  const syllable = syllableAt(time)
  if (syllable % pauseEvery === pauseEvery - 1) return 0
  const within = time * syllablesPerSecond - syllable
  return Math.sin(Math.PI * within) ** 0.7 * (0.55 + 0.45 * Math.abs(Math.sin(syllable * 2.3)))
}

/** Returns the sum of the harmonics of a tone, amplified at the formants. @param phase in periods */
function voice(phase: number, pitch: number, resonances: readonly number[]): number {
  let sum = 0
  let loudest = 0
  for (let harmonic = 1; harmonic * pitch < 3000; harmonic += 1) {
    const near = resonances.map(hertz => Math.exp(-(((harmonic * pitch - hertz) / 120) ** 2)))
    const strength = 0.08 / harmonic + Math.max(...near) / Math.sqrt(harmonic)
    sum += strength * Math.sin(2 * Math.PI * harmonic * phase)
    loudest += strength
  }
  return sum / loudest
}

/** The blend shapes of this example, with the names of ARKit. */
export const blendShapes = ['JawOpen', 'MouthFunnel', 'MouthSmile', 'BrowInnerUp', 'EyeBlink'] as const

const blinkEverySeconds = 2.4
const blinkSeconds = 0.2

/**
 * Returns the weights of a frame, from 0 to 1, in the order of `blendShapes`: loud sounds open the mouth,
 * high vowels widen it, and low ones round it.
 */
export function computeWeights(sound: Sound, samples: Buffer, timeCode: number): number[] {
  const { loudness, crossings } = measure(samples, sound.channelCount)
  const jaw = Math.min(1, 4 * loudness)
  const brightness = Math.min(1, (crossings * sound.samplesPerSecond) / 4000)
  const sinceBlink = timeCode % blinkEverySeconds
  const blink = sinceBlink < blinkSeconds ? Math.sin((Math.PI * sinceBlink) / blinkSeconds) : 0
  return [jaw, jaw * (1 - brightness), jaw * brightness, 0.25 + 0.25 * Math.sin(1.3 * timeCode), blink]
}

/**
 * Returns the root mean square of the first channel, and the share of its zero crossings; both from 0 to 1.
 */
function measure(samples: Buffer, channelCount: number): { loudness: number; crossings: number } {
  const step = channelCount * bytesPerSample
  const count = Math.floor(samples.length / step)
  if (count === 0) return { loudness: 0, crossings: 0 }
  let squares = 0
  let crossings = 0
  let last = 0
  for (let index = 0; index < count; index += 1) {
    const value = samples.readInt16LE(index * step) / 0x8000
    squares += value * value
    if (value * last < 0) crossings += 1
    if (value !== 0) last = value
  }
  return { loudness: Math.sqrt(squares / count), crossings: crossings / count }
}
