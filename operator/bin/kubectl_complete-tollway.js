#!/usr/bin/env node
import { launch } from './launch.js'

// kubectl runs this program with the words up to the cursor.
process.argv.splice(2, 0, '__complete')
await launch('cli/kubectl/kubectl-tollway.ts')
