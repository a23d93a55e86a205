/** The two protocols of backends. */
export type BackendProtocol = 'redis' | 'memcached'

/**
 * Returns a function that counts the commands of one connection: called with each chunk of a client, it
 * returns how many commands end in it. Redis's commands are arrays of bulk strings, memcached's are lines of
 * text, of which `add` and `set` have a second one.
 */
export function countCommands(protocol: BackendProtocol): (bytes: Buffer) => number {
  const lengthOf = protocol === 'redis' ? redisLength : memcachedLength
  let rest = ''
  return bytes => {
    rest += bytes.toString('latin1')
    let count = 0
    for (let length = lengthOf(rest); length > 0; length = lengthOf(rest)) {
      rest = rest.slice(length)
      count += 1
    }
    return count
  }
}

/** Returns the length of the first command, with all its line ends; 0 while it is incomplete. */
function redisLength(text: string): number {
  const [head, count] = /^\*(\d+)\r\n/.exec(text) ?? []
  if (head === undefined) return 0
  let length = head.length
  for (let left = Number(count); left > 0; left -= 1) {
    const [size, bytes] = /^\$(\d+)\r\n/.exec(text.slice(length, length + 16)) ?? []
    if (size === undefined) return 0
    length += size.length + Number(bytes) + 2
  }
  return length <= text.length ? length : 0
}

function memcachedLength(text: string): number {
  const line = text.indexOf('\r\n') + 2
  if (line === 1) return 0
  if (!/^(add|set) /.test(text)) return line
  return text.indexOf('\r\n', line) + 2 === 1 ? 0 : text.indexOf('\r\n', line) + 2
}
