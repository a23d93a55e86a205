import type { Output } from '@tollway/chassis/command-line/command.ts'
import { type Program, runProgram } from './run-program.ts'

export const tollway: Program = {
  name: 'tollway',
  summary:
    'Enforces rate limits, animation streams and merchants, which are custom resources, on this machine or in a cluster.',
  commands: {
    run: async () => (await import('./commands/run.ts')).run,
    validate: async () => (await import('./commands/validate.ts')).validate,
    translate: async () => (await import('./commands/translate.ts')).translate,
    diff: async () => (await import('./commands/diff.ts')).diff,
    status: async () => (await import('./commands/status.ts')).status,
    try: async () => (await import('./commands/try.ts')).tryCommand,
    counters: async () => (await import('./commands/counters.ts')).counters,
    whatif: async () => (await import('./commands/what-if.ts')).whatIf,
    streams: async () => (await import('./commands/streams.ts')).streams,
    collect: async () => (await import('./collect/collect.ts')).collect,
    call: async () => (await import('./commands/call.ts')).call,
    compare: async () => (await import('./commands/compare.ts')).compare,
    convert: async () => (await import('./commands/convert.ts')).convert,
    payments: async () => (await import('./commands/payments.ts')).payments,
    operator: async () => (await import('./commands/operator.ts')).operator,
    removal: async () => (await import('./commands/removal.ts')).removal,
    'config-check': async () => (await import('@tollway/ratelimit/config-check.ts')).configCheck,
    version: async () => (await import('./commands/version.ts')).versionCommand,
    completion: async () => (await import('./commands/completion.ts')).completion,
  },
}

/** Runs `tollway` with these arguments; resolves with the exit code, and never rejects. */
export function runCommand(args: readonly string[], output: Output): Promise<number> {
  return runProgram(tollway, args, output)
}
