"""The filters a subscription can be made of: topic, where, path and change, and those you add.

Each kind is a module of its own with one public class derived from `Filter`.
"""
