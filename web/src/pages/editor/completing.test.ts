import { describe, expect, it } from 'vitest'
import { offers } from './completing'

const SCHEMA = {
  properties: {
    benchmark: { type: 'string', description: 'Its name.' },
    target: { oneOf: [{ $ref: '#/$defs/Model' }, { $ref: '#/$defs/Command' }] },
    load: { $ref: '#/$defs/Load' },
  },
  $defs: {
    Model: {
      type: 'object',
      properties: {
        model: { type: 'string' },
        execution: { enum: ['sequential', 'parallel'] },
        device: { type: 'string', examples: ['cpu', 'cuda'] },
      },
    },
    Command: { type: 'object', properties: { command: { type: 'string' }, shell: { type: 'boolean' } } },
    Load: {
      type: 'object',
      properties: { rate: { anyOf: [{ type: 'number' }, { const: 'search' }, { type: 'null' }] } },
    },
  },
}

const labels = (text: string, isAsked = true) =>
  offers(SCHEMA, text, text.length, isAsked)?.options.map((one) => one.label) ?? []

describe('offers', () => {
  it('offers the keys that are not there yet', () => {
    expect(labels('benchmark: x\n')).toEqual(['target', 'load'])
  })
  it('keeps to the form of a section whose first keys are there', () => {
    expect(labels('target:\n  ')).toEqual(['model', 'execution', 'device', 'command', 'shell'])
    expect(labels('target:\n  model: a\n  ')).toEqual(['execution', 'device'])
  })
  it('offers values: choices, yes and no, examples', () => {
    expect(labels('target:\n  execution: ')).toEqual(['sequential', 'parallel'])
    expect(labels('target:\n  shell: ')).toEqual(['true', 'false'])
    expect(labels('target:\n  device: ')).toEqual(['cpu', 'cuda'])
    expect(labels('load: {rate: ')).toEqual(['search'])
  })
  it('offers dotted keys in a matrix, and their values', () => {
    expect(labels('target: {model: a}\nmatrix:\n  ')).toEqual([
      'target.model',
      'target.execution',
      'target.device',
      'load.rate',
    ])
    expect(labels('target: {model: a}\nmatrix:\n  target.execution: [')).toEqual(['sequential', 'parallel'])
  })
  it('begins a section on the next line, and stays in braces', () => {
    expect(offers(SCHEMA, 'lo', 2, false)?.options.find((one) => one.label === 'load')?.apply).toBe('load:\n  ')
    expect(offers(SCHEMA, 'target: {co', 11, false)?.options.find((one) => one.label === 'command')?.apply).toBe(
      'command: ',
    )
  })
  it('waits for the first letter unless it is asked', () => {
    expect(labels('', false)).toEqual([])
    expect(labels('t', false)).toContain('target')
  })
  it('tells what a key is for', () => {
    expect(offers(SCHEMA, 'b', 1, false)?.options[0]).toMatchObject({
      label: 'benchmark',
      info: 'Its name.',
      detail: 'string',
    })
  })
})
