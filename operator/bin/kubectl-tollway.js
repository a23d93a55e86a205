#!/usr/bin/env node
import { launch } from './launch.js'

await launch('cli/kubectl/kubectl-tollway.ts')
