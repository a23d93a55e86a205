import type { SourceRequest } from './limit-source-process.ts'
import { createFeedSource, createFileSource } from './limit-sources.ts'

/** The process of `startSource`. */
const source = process.argv[2] === 'feed' ? await createFeedSource() : createFileSource()
const contents: (() => void)[] = []
process.on('message', (request: SourceRequest) => {
  if (typeof request === 'number') return contents[request]?.()
  contents.push(source.prepare(request))
  process.send?.('prepared')
})
process.send?.(source.settings)
