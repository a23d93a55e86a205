import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/**
 * Reads a regular file of at most `maxBytes`; links are followed. Anything else is rejected before reading: a
 * pipe might block forever, and a device may never end.
 *
 * @throws Error with a short reason and the code of the system, but neither the content nor the path
 */
export function readBoundedFile(path: string, maxBytes: number): Buffer {
  const descriptor = orCode(() => openSync(path, constants.O_RDONLY | constants.O_NONBLOCK))
  try {
    const stat = orCode(() => fstatSync(descriptor))
    if (!stat.isFile()) throw new Error('it is not a regular file')
    if (stat.size > maxBytes) {
      throw new Error(`the file has ${stat.size} bytes, and at most ${maxBytes} are allowed`)
    }
    // One byte more, so that a file that grows meanwhile is rejected instead of truncated.
    const buffer = Buffer.alloc(stat.size + 1)
    let length = 0
    for (;;) {
      const read = orCode(() => readSync(descriptor, buffer, length, buffer.length - length, null))
      length += read
      if (read === 0) return buffer.subarray(0, length)
      if (length > stat.size) throw new Error('the file is being written')
    }
  } finally {
    closeSync(descriptor)
  }
}

function orCode<T>(operation: () => T): T {
  try {
    return operation()
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new Error(`cannot be read: ${code ?? message}`, { cause: error })
  }
}
