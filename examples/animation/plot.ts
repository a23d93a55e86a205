import type { Buffer } from 'node:buffer'
import type { Recording } from './recording.ts'
import { bytesPerSample, type Sound } from './wav.ts'

/** Colours that people with colour blindness can distinguish (Okabe and Ito). */
const colours = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000']
/** At most this many blend shapes are drawn: those that change the most. */
const maxCurves = colours.length

const width = 960
const left = 48
const right = 150
const plotWidth = width - left - right
const wave = { top: 48, height: 100 }
const curves = { top: 172, height: 240 }
const height = curves.top + curves.height + 44
/** The minimum distance between labels of curves, in pixels. */
const labelStep = 15

/** Returns an SVG with the sound and, below it, the weights over the same time. */
export function plot(recording: Recording): string {
  const { sound, frames, title } = recording
  const soundSeconds = sound.samples.length / (bytesPerSample * sound.channelCount * sound.samplesPerSecond)
  const seconds = Math.max(soundSeconds, frames.at(-1)?.timeCode ?? 0, 0.1)
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"`,
    '  font-family="system-ui, sans-serif" font-size="12" fill="#333">',
    '<rect width="100%" height="100%" fill="#fff"/>',
    `<text x="${left}" y="26" font-size="15" font-weight="600">${escapeXml(title)}</text>`,
    `<text x="${width - right}" y="26" text-anchor="end" fill="#777">${describe(recording, seconds)}</text>`,
    ...grid(seconds),
    waveform(sound, seconds, soundSeconds),
    ...drawCurves(recording, seconds),
    '</svg>',
    '',
  ].join('\n')
}

function describe({ frames, sound }: Recording, seconds: number): string {
  return `${frames.length} frames, ${seconds.toFixed(2)} s, ${sound.samplesPerSecond / 1000} kHz`
}

const toX = (time: number, seconds: number) => left + (time / seconds) * plotWidth
const toY = (weight: number) => curves.top + (1 - weight) * curves.height
const round = (value: number) => Math.round(value * 10) / 10

function grid(seconds: number): string[] {
  const lines: string[] = []
  const bottom = curves.top + curves.height
  const step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60].find(every => seconds / every <= 10) ?? 300
  for (let index = 0; index * step <= seconds + 1e-9; index += 1) {
    const x = round(toX(index * step, seconds))
    lines.push(`<path d="M${x} ${wave.top}V${bottom}" stroke="#e8e8e8"/>`)
    lines.push(`<text x="${x}" y="${bottom + 18}" text-anchor="middle">${round(index * step)}</text>`)
  }
  for (const weight of [0, 0.25, 0.5, 0.75, 1]) {
    const y = toY(weight)
    lines.push(`<path d="M${left} ${y}H${left + plotWidth}" stroke="#e8e8e8"/>`)
    lines.push(`<text x="${left - 8}" y="${y + 4}" text-anchor="end">${weight}</text>`)
  }
  lines.push(`<text x="${left + plotWidth}" y="${bottom + 36}" text-anchor="end" fill="#777">seconds</text>`)
  lines.push(
    `<text x="${left + plotWidth + 10}" y="${wave.top + wave.height / 2 + 4}" fill="#777">sound</text>`,
  )
  return lines
}

/** Draws the minimum and the maximum sample of each column of pixels. */
function waveform({ samples, channelCount }: Sound, seconds: number, soundSeconds: number): string {
  const columns = Math.floor((plotWidth * soundSeconds) / seconds)
  const step = channelCount * bytesPerSample
  const count = Math.floor(samples.length / step)
  const middle = wave.top + wave.height / 2
  let path = ''
  for (let column = 0; column < columns; column += 1) {
    const from = Math.floor((column * count) / columns)
    const to = Math.max(from + 1, Math.floor(((column + 1) * count) / columns))
    const { least, greatest } = extremes(samples, step, from, Math.min(to, count))
    const y = (value: number) => round(middle - (value / 0x8000) * (wave.height / 2))
    path += `M${left + column} ${y(greatest)}V${y(least) + 0.5}`
  }
  return `<path d="${path}" stroke="#8a94a6" fill="none"/>`
}

function extremes(samples: Buffer, step: number, from: number, to: number) {
  let least = 0
  let greatest = 0
  for (let index = from; index < to; index += 1) {
    const value = samples.readInt16LE(index * step)
    if (value < least) least = value
    if (value > greatest) greatest = value
  }
  return { least, greatest }
}

function drawCurves({ names, frames }: Recording, seconds: number): string[] {
  const drawn = names
    .map((name, index) => ({ name, values: frames.map(({ weights }) => weights[index] ?? 0) }))
    .sort((a, b) => spread(b.values) - spread(a.values))
    .slice(0, maxCurves)
  const labels = placeLabels(drawn.map(({ values }) => toY(values.at(-1) ?? 0)))
  return drawn.flatMap(({ name, values }, index) => {
    const points = values.map(
      (value, at) => `${round(toX(frames[at]?.timeCode ?? 0, seconds))},${round(toY(value))}`,
    )
    const colour = colours[index] ?? '#000'
    return [
      `<polyline points="${points.join(' ')}" fill="none" stroke="${colour}" stroke-width="1.6"/>`,
      `<text x="${left + plotWidth + 10}" y="${round((labels[index] ?? 0) + 4)}" fill="${colour}">${escapeXml(name)}</text>`,
    ]
  })
}

function spread(values: readonly number[]): number {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  return values.reduce((sum, value) => sum + (value - mean) ** 2, 0)
}

/**
 * Returns the y coordinate of each label: that of the end of the curve, or higher if the label would overlap
 * another.
 */
function placeLabels(ends: readonly number[]): number[] {
  const places: number[] = []
  let lowest = curves.top + curves.height
  for (const { end, index } of ends.map((end, index) => ({ end, index })).sort((a, b) => b.end - a.end)) {
    lowest = Math.min(end, lowest)
    places[index] = lowest
    lowest -= labelStep
  }
  return places
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
