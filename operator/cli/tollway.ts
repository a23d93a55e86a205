import { runCommand } from './run-command.ts'

// Who reads the output may have had enough of it (`| head`); that is no reason to end what runs.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
}

process.exitCode = await runCommand(process.argv.slice(2), {
  print: text => process.stdout.write(text),
  printError: text => process.stderr.write(text),
})
