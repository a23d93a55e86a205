import { Buffer } from 'node:buffer'

/** Samples of 16 bits, interleaved by channel, as in a WAV file. */
export interface Sound {
  readonly channelCount: number
  readonly samplesPerSecond: number
  readonly samples: Buffer
}

const pcm = 1
const headerBytes = 44
export const bytesPerSample = 2

/** @throws Error for a file that is not WAV with PCM of 16 bits */
export function parseWav(file: Buffer): Sound {
  if (file.toString('latin1', 0, 4) !== 'RIFF' || file.toString('latin1', 8, 12) !== 'WAVE') {
    throw new Error('expected a WAV file, which begins with RIFF and WAVE')
  }
  const format = findChunk(file, 'fmt ')
  const encoding = format.readUInt16LE(0)
  const bits = format.readUInt16LE(14)
  if (encoding !== pcm || bits !== 8 * bytesPerSample) {
    throw new Error(`expected PCM (encoding 1) of 16 bits, got encoding ${encoding} of ${bits} bits`)
  }
  return {
    channelCount: format.readUInt16LE(2),
    samplesPerSecond: format.readUInt32LE(4),
    samples: findChunk(file, 'data'),
  }
}

function findChunk(file: Buffer, name: string): Buffer {
  let at = 12
  while (at + 8 <= file.length) {
    const start = at + 8
    const end = start + file.readUInt32LE(at + 4)
    if (file.toString('latin1', at, at + 4) === name) return file.subarray(start, end)
    // Chunks begin at even offsets.
    at = end + (end % 2)
  }
  throw new Error(`the file has no chunk "${name}"`)
}

export function formatWav({ channelCount, samplesPerSecond, samples }: Sound): Buffer {
  const head = Buffer.alloc(headerBytes)
  head.write('RIFF', 0)
  head.writeUInt32LE(headerBytes - 8 + samples.length, 4)
  head.write('WAVEfmt ', 8)
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(pcm, 20)
  head.writeUInt16LE(channelCount, 22)
  head.writeUInt32LE(samplesPerSecond, 24)
  head.writeUInt32LE(samplesPerSecond * channelCount * bytesPerSample, 28)
  head.writeUInt16LE(channelCount * bytesPerSample, 32)
  head.writeUInt16LE(8 * bytesPerSample, 34)
  head.write('data', 36)
  head.writeUInt32LE(samples.length, 40)
  return Buffer.concat([head, samples])
}
