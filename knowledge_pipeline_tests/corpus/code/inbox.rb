# frozen_string_literal: true

require 'json'
require_relative 'message'

# Everything about mail.
module Mail
  VERSION = '1.0'

  # Holds messages.
  class Inbox < Box
    include Enumerable
    attr_reader :messages

    def initialize(messages = [])
      @messages = messages
    end

    # Yields the unread ones.
    def each
      return enum_for(:each) unless block_given?

      @messages.each do |message|
        yield message if message.unread? && !message.spam?
      end
    end

    def self.open(path)
      new(JSON.parse(File.read(path)))
    end

    private def reset!
      @messages = []
    end

    class << self
      def empty
        new
      end
    end
  end
end

def main
  case ARGV.first
  when 'list' then puts Mail::Inbox.open('mail.json').count
  else warn 'usage: inbox list'
  end
end

main
