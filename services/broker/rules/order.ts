import type { Message } from '../wire/message.ts'
import type { Rule } from './rule.ts'

interface Last {
  readonly part: Message['part']
  readonly isError: boolean
}

/**
 * The header comes first and once, then at least one message of data, and a status is the last message;
 * status messages are also allowed between others. A request that ends with ERROR needs no data ("Message
 * ordering" of the specification).
 */
export function createOrderRule(): Rule {
  let hasHeader = false
  let hasData = false
  let last: Last | undefined

  return {
    judge(message) {
      const before = hasHeader
      if (message.part === 'none')
        return 'neither header nor data nor status is found, one of them is allowed'
      last = { part: message.part, isError: message.part === 'status' && message.status.code === 'ERROR' }
      if (message.part === 'header') {
        hasHeader = true
        return before ? 'a second header is found, one is allowed' : undefined
      }
      if (message.part === 'data') hasData = true
      return before ? undefined : `a ${message.part} message is found, a header is allowed as the first`
    },
    end() {
      if (!hasHeader) return 'the request ended without a header'
      if (last?.part !== 'status')
        return `the request ended with ${last?.part}, a status is allowed as the last`
      if (!hasData && !last.isError) return 'the request ended without data'
      return undefined
    },
    save: () => ({ hasData, last }),
    restore(saved) {
      const { hasData: had, last: before } = saved as { hasData: boolean; last: Last }
      hasData = had
      last = before
    },
  }
}
