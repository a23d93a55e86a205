import { type Command, exitCodes, type Output, UsageError } from './command.ts'
import { convert } from './convert.ts'
import { run } from './run.ts'
import { status } from './status.ts'
import { translate } from './translate.ts'
import { tryCommand } from './try.ts'
import { validate } from './validate.ts'

const commands: readonly Command[] = [run, validate, translate, status, tryCommand, convert]

const help = `Usage: tollway COMMAND [OPTIONS]

Rate limits as custom resources: enforced on this machine, or in a cluster.

Commands:
${commands.map(({ name, summary }) => `  ${name.padEnd(10)} ${summary}`).join('\n')}

tollway COMMAND --help shows a command's options with examples.
Exit codes: 0 done, 1 something that was looked at is wrong, 2 the command could not do its work.
`

const output: Output = {
  print: text => process.stdout.write(text),
  printError: text => process.stderr.write(text),
}

async function main([name, ...args]: readonly string[]): Promise<number> {
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    output.print(help)
    return name === undefined ? exitCodes.failed : exitCodes.ok
  }
  const command = commands.find(one => one.name === name)
  if (command === undefined) {
    output.printError(
      `tollway: there is no command "${name}"; there are ${commands.map(c => c.name).join(', ')}\n`,
    )
    return exitCodes.failed
  }
  if (args.includes('--help') || args.includes('-h')) {
    output.print(command.help)
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

process.exitCode = await main(process.argv.slice(2))
