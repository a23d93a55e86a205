import { relative } from 'node:path'
import type { TestEvent } from 'node:test/reporters'

/** A reporter of Node's test runner: the file, the name and the error of each test that fails by itself. */
// biome-ignore lint/style/noDefaultExport: the test runner takes no other export
export default async function* failuresReporter(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const { type, data } of events) {
    if (type !== 'test:fail') continue
    const error: Error & { readonly failureType?: string } = data.details.error
    if (error.failureType === 'subtestsFailed') continue
    const { message } = error.cause instanceof Error ? error.cause : error
    yield `${relative('.', data.file ?? '')} > ${data.name}\n${message.replaceAll(/^/gm, '  ')}\n`
  }
}
