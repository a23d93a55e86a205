import { type Command, exitCodes, type Output, UsageError } from './command.ts'
import { describeCommand } from './describe-command.ts'
import { nearestName } from './options/nearest-name.ts'

/** A command loads only what it needs: to start is most of what a short one does. */
const commands: Readonly<Record<string, () => Promise<Command>>> = {
  run: async () => (await import('./commands/run.ts')).run,
  validate: async () => (await import('./commands/validate.ts')).validate,
  translate: async () => (await import('./commands/translate.ts')).translate,
  status: async () => (await import('./commands/status.ts')).status,
  try: async () => (await import('./commands/try.ts')).tryCommand,
  counters: async () => (await import('./commands/counters.ts')).counters,
  whatif: async () => (await import('./commands/what-if.ts')).whatIf,
  streams: async () => (await import('./commands/streams.ts')).streams,
  call: async () => (await import('./commands/call.ts')).call,
  compare: async () => (await import('./commands/compare.ts')).compare,
  convert: async () => (await import('./commands/convert.ts')).convert,
  payments: async () => (await import('./commands/payments.ts')).payments,
  operator: async () => (await import('./commands/operator.ts')).operator,
  removal: async () => (await import('./commands/removal.ts')).removal,
  'config-check': async () => (await import('./commands/config-check.ts')).configCheck,
}

/** Runs `tollway` with these arguments; resolves with the exit code, and never rejects. */
export async function runCommand([name, ...args]: readonly string[], output: Output): Promise<number> {
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    output.print(await describeCommands())
    return name === undefined ? exitCodes.failed : exitCodes.ok
  }
  const load = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (load === undefined) {
    output.printError(`tollway: ${describeUnknown(name)}\n`)
    return exitCodes.failed
  }
  const command = await load()
  if (args.includes('--help') || args.includes('-h')) {
    output.print(describeCommand(command))
    return exitCodes.ok
  }
  try {
    return await command.run(args, output)
  } catch (error) {
    output.printError(`tollway ${name}: ${(error as Error).message}\n`)
    if (error instanceof UsageError) output.printError(`tollway ${name} --help shows how it is called\n`)
    return exitCodes.failed
  }
}

function describeUnknown(name: string): string {
  const names = Object.keys(commands)
  const nearest = nearestName(name, names)
  const advice = nearest === undefined ? `there are ${names.join(', ')}` : `did you mean ${nearest}?`
  return `there is no command "${name}"; ${advice}`
}

async function describeCommands(): Promise<string> {
  const all = await Promise.all(Object.values(commands).map(load => load()))
  return `Usage: tollway COMMAND [OPTIONS]

Rate limits, animation streams and merchants as custom resources: made true on this machine, or in a cluster.

Commands:
${all.map(({ name, summary }) => `  ${name.padEnd(13)} ${summary}`).join('\n')}

tollway COMMAND --help shows a command's options with examples.
Exit codes: 0 done, 1 something that was looked at is wrong, 2 the command could not do its work.
`
}
