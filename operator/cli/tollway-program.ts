import type { CommandOutput } from '@tollway/chassis/command-line/command.ts'
import { type Program, runProgram } from './run-program.ts'

export const tollway: Program = {
  name: 'tollway',
  summary:
    'Enforces rate limits, animation streams and merchants, which are custom resources, on this machine or in a cluster.',
  commands: {
    run: async () => (await import('./commands/run.ts')).runFolderCommand,
    validate: async () => (await import('./commands/validate.ts')).validateCommand,
    translate: async () => (await import('./commands/translate.ts')).translateCommand,
    diff: async () => (await import('./commands/diff.ts')).diffCommand,
    status: async () => (await import('./commands/status.ts')).statusCommand,
    try: async () => (await import('./commands/try.ts')).tryCommand,
    counters: async () => (await import('./commands/counters.ts')).countersCommand,
    whatif: async () => (await import('./commands/what-if.ts')).whatIfCommand,
    streams: async () => (await import('./commands/streams.ts')).streamsCommand,
    collect: async () => (await import('./collect/collect.ts')).collectCommand,
    call: async () => (await import('./commands/call.ts')).callCommand,
    compare: async () => (await import('./commands/compare.ts')).compareCommand,
    convert: async () => (await import('./commands/convert.ts')).convertCommand,
    payments: async () => (await import('./commands/payments.ts')).paymentsCommand,
    operator: async () => (await import('./commands/operator.ts')).operatorCommand,
    removal: async () => (await import('./commands/removal.ts')).removalCommand,
    'config-check': async () => (await import('@tollway/ratelimit/config-check.ts')).configCheck,
    version: async () => (await import('./commands/version.ts')).versionCommand,
    completion: async () => (await import('./commands/completion.ts')).completionCommand,
  },
}

export function runTollway(args: readonly string[], output: CommandOutput): Promise<number> {
  return runProgram(tollway, args, output)
}
