import { isMainThread } from 'node:worker_threads'

/** True in the process of a test file; false in its threads and in the programs that it starts. */
export const isTestFile = isMainThread && process.argv[1]?.endsWith('.test.ts') === true
