import type { Output } from '@tollway/chassis/command-line/command.ts'

/** Runs a program with the arguments of this process; its exit code is that of the program. */
export async function runInTerminal(
  run: (args: readonly string[], output: Output) => Promise<number>,
): Promise<void> {
  // A reader such as `head` closes the output early; the command continues.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error
    })
  }
  process.exitCode = await run(process.argv.slice(2), {
    print: text => process.stdout.write(text),
    printError: text => process.stderr.write(text),
  })
}
