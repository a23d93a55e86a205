import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/**
 * Reads a regular file of at most `maxBytes`, following links. Anything else is rejected before it is read: a
 * pipe might block forever, and a device may never end.
 *
 * @throws Error with a short reason, including the system's code if there is one; never with the content or
 *   the path
 */
export function readBoundedFile(path: string, maxBytes: number): Buffer {
  const descriptor = orCode(() => openSync(path, constants.O_RDONLY | constants.O_NONBLOCK))
  try {
    const stat = orCode(() => fstatSync(descriptor))
    if (!stat.isFile()) throw new Error('it is not a regular file')
    if (stat.size > maxBytes) {
      throw new Error(`the file has ${stat.size} bytes, and at most ${maxBytes} are allowed`)
    }
    // A file that has grown since it was measured is reported and not truncated.
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
