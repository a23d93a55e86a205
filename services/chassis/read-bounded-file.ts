import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/**
 * The content of a regular file of at most `maxBytes`, links followed. Anything else is refused before it is
 * read: a pipe would be waited for, perhaps for ever, and a device may never end.
 *
 * @throws Error that says in a few words what is wrong, with the system's code where there is one; never with
 * the content or the path.
 */
export function readBoundedFile(path: string, maxBytes: number): Buffer {
  const descriptor = orCode(() => openSync(path, constants.O_RDONLY | constants.O_NONBLOCK))
  try {
    const stat = orCode(() => fstatSync(descriptor))
    if (!stat.isFile()) throw new Error('it is no regular file')
    if (stat.size > maxBytes) {
      throw new Error(`the file has ${stat.size} bytes, and at most ${maxBytes} are allowed`)
    }
    // A file that has grown since it was measured is told of, not cut.
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
